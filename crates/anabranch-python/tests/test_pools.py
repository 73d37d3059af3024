"""Memory pools."""

import pytest

import anabranch


def test_a_pool_counts_what_is_allocated_from_it(device, context, stream):
    with device.create_memory_pool() as pool:
        assert pool.device == device
        assert (pool.used_bytes, pool.reserved_bytes) == (0, 0)
        buffer = stream.allocate(1000, "float32", pool=pool)
        stream.synchronize()
        assert pool.used_bytes >= 4000
        assert pool.reserved_bytes >= pool.used_bytes
        buffer.close()
        stream.synchronize()
        assert pool.used_bytes == 0
        assert pool.used_bytes_high >= 4000
        pool.reset_high_watermarks()
        # The driver sees then that the memory is free.
        context.synchronize()
        pool.trim()
        assert (pool.used_bytes_high, pool.reserved_bytes) == (0, 0)


def test_memory_outlives_its_pool(device, stream):
    pool = device.create_memory_pool()
    buffer = stream.allocate(16, pool=pool)
    pool.close()
    stream.fill(buffer, 3)
    assert stream.download(buffer).tolist() == [3] * 16
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        pool.trim()
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        stream.allocate(16, pool=pool)


def test_the_release_threshold_can_be_set(device):
    pool = device.create_memory_pool()
    pool.release_threshold = 1 << 20
    assert pool.release_threshold == 1 << 20
    assert repr(pool).startswith("<anabranch.MemoryPool")


def test_the_default_pool_is_one(device):
    pool = device.default_memory_pool()
    assert pool == device.default_memory_pool()
    assert hash(pool) == hash(device.default_memory_pool())
    assert pool != device.create_memory_pool()


def test_a_pool_with_a_limit_runs_out_of_memory(device, stream):
    pool = device.create_memory_pool(max_bytes=64 << 20)
    with pytest.raises(anabranch.OutOfMemoryError):
        stream.allocate(256 << 20, pool=pool)


def test_a_closed_pool_is_no_later_one(device):
    pools, seen = [], []
    for _ in range(20):
        pool = device.create_memory_pool()
        seen.append(pool.handle)
        pool.close()
        pools.append(pool)
    assert len(set(pools)) == 20 and pools[0] == pools[0] != pools[1]
