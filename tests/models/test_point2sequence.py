"""Point2Sequence: its LSTM cell against PyTorch's, its attention against the formula, which of it the authors' code uses."""

import pytest
import torch
from torch import nn

from reqnn.errors import InputError, NoRuleError
from reqnn.models import Point2Sequence
from reqnn.models.point2sequence import AttentionSequence, LSTMCell
from reqnn.revision import revise
from surfaces import surfaces


def test_lstm_cell():
    """PyTorch's has its gates in the order i, f, j, o, and no 1 added to f."""
    torch.manual_seed(0)
    ours, theirs = LSTMCell(5, 3).double(), nn.LSTMCell(5, 3).double()
    order = torch.tensor([0, 2, 1, 3])
    with torch.no_grad():
        bias = ours.input.bias.unflatten(0, (4, 3))[order]
        theirs.weight_ih.copy_(ours.input.weight.unflatten(0, (4, 3))[order].flatten(0, 1))
        theirs.weight_hh.copy_(ours.state.weight.unflatten(0, (4, 3))[order].flatten(0, 1))
        theirs.bias_ih.copy_((bias + torch.tensor([0, 1, 0, 0])[:, None]).flatten())
        theirs.bias_hh.zero_()
    x, state = torch.randn(4, 5).double(), (torch.randn(4, 3).double(), torch.randn(4, 3).double())
    for given in (state, None):
        torch.testing.assert_close(ours(x, given), theirs(x, given))


def test_attention():
    torch.manual_seed(0)
    net, areas = AttentionSequence(4, "paper").double(), torch.randn(3, 5, 4).double()
    out = net(*areas)
    for row in range(5):
        state, states = None, []
        for area in areas:
            state = net.encoder(area[row : row + 1], state)
            states.append(state[0][0])
        q = net.decoder(torch.cat([states[-1], torch.zeros(4).double()])[None], None)[0][0]
        scores = torch.stack([net.score.weight[0] @ torch.tanh(net.query(q) + net.memory(h)) for h in states])
        context = sum(a * h for a, h in zip(scores.softmax(0), states, strict=True))
        torch.testing.assert_close(out[row], torch.tanh(net.attended.weight @ torch.cat([q, context])))
    net.attention = "published"
    torch.testing.assert_close(net(*areas)[-1], q)


def test_the_published_attention_learns_nothing():
    net = Point2Sequence(width=1 / 16, npoint=8, nsample=(2, 3, 4, 5), attention="published")
    net(torch.rand(3, 16, 3)).sum().backward()
    dead = {name.split(".")[1] for name, p in net.named_parameters() if p.grad is None}
    assert dead == {"query", "memory", "score", "attended"}
    with pytest.raises(InputError, match="attention is 'none'"):
        Point2Sequence(attention="none")


def test_the_refusal_names_the_gate_and_the_way_out():
    net = Point2Sequence(width=1 / 16, npoint=8, nsample=(2, 3, 4, 5))
    with pytest.raises(NoRuleError, match=r"'sequence.encoder'(?s:.*)to_real='sequence.encoder.input'"):
        revise(net, surfaces(points=32))
