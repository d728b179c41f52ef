"""The tokens that a trace leaves out: shared exactly where its ids say so."""

import pytest

from kvref.workload.mooncake import TracedRequest
from kvref.workload.tokens import output_tokens, prompt_tokens


def tokens(*ids, length, block=4):
    return prompt_tokens(TracedRequest(0, length, 0, ids), block)


def test_equal_ids_mean_equal_tokens_cut_to_the_length():
    assert tokens(1, 2, length=8)[:6] == tokens(1, 2, length=6)
    assert len(tokens(1, 2, length=6)) == 6


def test_blocks_of_other_ids_share_not_even_their_first_token():
    firsts = {tokens(block, length=1) for block in range(2000)}
    assert len(firsts) == 2000


def test_the_tokens_of_a_block_do_not_depend_on_what_was_asked_before():
    assert tokens(7, length=4) == (65543, *tokens(7, length=4)[1:])
    assert tokens(7, length=4)[1:] != tokens(8, length=4)[1:]


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (3, 5), (2, 2)])
def test_output_is_the_same_however_it_is_cut(start, stop):
    assert output_tokens(3, start, stop) == output_tokens(3, 0, 9)[start:stop]


def test_the_outputs_of_two_requests_differ_from_their_first_token_on():
    firsts = {output_tokens(request, 0, 1) for request in range(1000)}
    assert len(firsts) == 1000
    assert all(token < 2**63 for (token,) in firsts)


def test_the_tokens_of_a_long_output_are_still_of_the_vocabulary():
    assert output_tokens(0, 65535, 65538) == (65535, 0, 1)
