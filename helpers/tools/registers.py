"""What each kernel needs of a multiprocessor, read from machine code; needs no GPU."""

import struct

from helpers.kernel import Cubin

_RESERVED_SHARED = 1024
_REGISTER_COUNT = 0x2F  # the attribute of section .nv.info that holds (symbol, registers)


def registers(cubin: Cubin) -> dict[str, int]:
    """Registers a thread, by the lowered name of each kernel in a helpers.kernel.Cubin."""
    data = cubin.cubin
    sections = _sections(data)
    symbols, names = sections[".symtab"], sections[".strtab"]
    found = {}
    attributes = memoryview(sections[".nv.info"])
    while attributes:
        form, kind, size = struct.unpack_from("<BBH", attributes)
        size = size if form == 4 else 0  # only this form has a payload behind its head
        if form == 4 and kind == _REGISTER_COUNT:
            symbol, count = struct.unpack_from("<II", attributes, 4)
            (start,) = struct.unpack_from("<I", symbols, 24 * symbol)
            found[names[start : names.index(b"\0", start)].decode()] = count
        attributes = attributes[4 + size :]
    return found


def static_shared(cubin: Cubin) -> dict[str, int]:
    """Bytes of shared memory that a block of each kernel declares, by its lowered name in a helpers.kernel.Cubin."""
    # From sm_90 on the section begins with what the system keeps for itself, which no limit counts.
    reserved = _RESERVED_SHARED if int(cubin.arch.removeprefix("sm_")) >= 90 else 0
    sizes = {name: size for name, (_, size) in _section_table(cubin.cubin).items()}
    found = {name: sizes.get(f".nv.shared.{name}", 0) for name in registers(cubin)}
    return {name: max(0, size - reserved) for name, size in found.items()}


def _sections(elf):
    """Contents of each section of a 64-bit ELF file, by name."""
    return {name: elf[start : start + size] for name, (start, size) in _section_table(elf).items()}


def _section_table(elf):
    """Where each section of a 64-bit ELF file starts, and its size, by name. Shared memory has a size only."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_at = struct.unpack_from("<HHH", elf, 58)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = elf[heads[names_at][4] :]
    return {names[head[0] : names.index(b"\0", head[0])].decode(): (head[4], head[5]) for head in heads}
