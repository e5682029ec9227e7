"""The static buffers that lessons 12 and 13 decode with."""

import torch

from helpers.arrays.decode_batch import DecodeBatch, recorded


def test_live_rows_follow_the_step_and_padding_rows_do_not():
    batch = DecodeBatch([15, 30], width=8, layers=2, rows=4, page_size=16, steps=3)
    for step, (lengths, used) in enumerate((([15, 30], [1, 2]), ([16, 31], [1, 2]), ([17, 32], [2, 2]))):
        batch.fill(step)
        assert batch.seq_lens.tolist() == [*lengths, 0, 0]
        table, slots = batch.table.cpu(), batch.slots.tolist()
        for row, (length, count) in enumerate(zip(lengths, used, strict=True)):
            assert (table[row, :count] > 0).all() and (table[row, count:] == 0).all()
            assert slots[row] == table[row, count - 1] * 16 + (length - 1) % 16
        assert slots[2:] == [0, 0] and (table[2:] == 0).all() and (batch.hidden[2:] == 0).all()
        assert slots[0] != slots[1] and (batch.hidden[:2] != 0).all()


def test_requests_share_no_page_and_every_slot_is_in_the_cache():
    batch = DecodeBatch([200, 3, 64], width=4, page_size=16, pad_length=1)
    pages = batch.table[batch.table > 0].tolist()
    assert len(pages) == len(set(pages)) == 13 + 1 + 4
    assert batch.k_cache.shape == batch.v_cache.shape == (1, (3 * 13 + 1) * 16, 4)
    assert max(pages) * 16 + 15 < batch.k_cache.shape[1] and batch.seq_lens[3:].tolist() == [1] * 5


def test_a_recorded_step_reads_the_buffers_as_they_are_at_each_replay():
    batch, out = DecodeBatch([5], width=4, rows=2), []
    total = torch.zeros_like(batch.seq_lens)
    replay = recorded(lambda: total.copy_(batch.seq_lens + 1))
    for step in range(3):
        batch.fill(step)
        replay()
        out.append(total.tolist())
    assert out == [[6, 1], [7, 1], [8, 1]]
