"""Managed memory: what it is attached to."""

from __future__ import annotations

import numpy
import pytest

import anabranch


def refused(call, *arguments):
    with pytest.raises(anabranch.AnabranchError) as caught:
        call(*arguments)
    return caught.value


def test_other_streams_are_refused(context, stream):
    memory, other = context.allocate_managed(4, "uint32"), context.create_stream()
    stream.attach(memory, "single")
    stream.fill(memory, 7)
    error = refused(other.fill, memory, 8)
    assert error.name == "CUDA_ERROR_ILLEGAL_STATE" and "Stream::attach" in error.hint
    stream.attach(buffer=memory, attachment="host")
    assert refused(stream.fill, memory, 8).name == "CUDA_ERROR_ILLEGAL_STATE"
    # A view of all of it is as good.
    other.attach(memory.reshape((2, 2))[:], "global")
    other.fill(memory[:2], 8)
    assert other.download(memory).tolist() == [8, 8, 7, 7]


def test_a_graph_is_launched_where_its_memory_is_attached(context, stream):
    memory, other = context.allocate_managed(4, "uint32"), context.create_stream()
    with stream.capture() as capture:
        stream.fill(memory, 5)
    executable = capture.graph.instantiate()
    other.attach(memory, "single")
    assert refused(executable.launch, stream).name == "CUDA_ERROR_ILLEGAL_STATE"
    executable.launch(other)
    assert other.download(memory).tolist() == [5] * 4


def test_the_host_uses_what_is_attached_to_it(context, stream, on_host):
    memory = context.allocate_managed(4, "uint32")
    stream.attach(memory, "host")
    numpy.asarray(memory)[:] = 3
    stream.attach(memory, "global")
    assert stream.download(memory).tolist() == [3] * 4


def test_what_cannot_be_attached(context, stream):
    memory = context.allocate_managed(4, "uint32")
    with pytest.raises(ValueError, match='"single", "host" or "global", and not "all"'):
        stream.attach(memory, "all")
    assert "the whole buffer" in str(refused(stream.attach, memory[1:], "host"))
    for other in (stream.allocate(4), context.allocate_pinned(4)):
        error = refused(stream.attach, other, "host")
        assert error.name == "CUDA_ERROR_INVALID_VALUE" and "not managed" in str(error)
    with pytest.raises(TypeError):
        stream.attach(numpy.zeros(4), "host")
    # Nothing was attached.
    context.create_stream().fill(memory, 1)
    memory.close()
    assert "closed" in str(refused(stream.attach, memory, "host"))
