"""How many registers a thread of each kernel needs, read from machine code; needs no GPU."""

import struct

_REGISTER_COUNT = 0x2F  # the attribute of section .nv.info that holds (symbol, registers)


def registers(cubin):
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


def _sections(elf):
    """Contents of each section of a 64-bit ELF file, by name."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_at = struct.unpack_from("<HHH", elf, 58)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    bodies = [elf[head[4] : head[4] + head[5]] for head in heads]
    names = bodies[names_at]
    return {names[h[0] : names.index(b"\0", h[0])].decode(): body for h, body in zip(heads, bodies, strict=True)}
