"""Memory and memory pools by addresses and handles, for `runtime`.

As in C, an address is trusted: who passes one makes sure that the memory is there until the work is complete.
"""

from __future__ import annotations

from anabranch import AnabranchError

from . import _constants as constants
from . import _devices
from ._errors import CUDARuntimeError, of_runtime

INVALID_VALUE = 1
INVALID_DIRECTION = 21
NOT_SUPPORTED = 801
LEGACY = 0

_KINDS = (
    constants.memcpyHostToHost,
    constants.memcpyHostToDevice,
    constants.memcpyDeviceToHost,
    constants.memcpyDeviceToDevice,
    constants.memcpyDefault,
)

# The current pools that `deviceSetMemPool` has chosen, by the numbers of devices.
_POOLS: dict[int, int] = {}


class PointerAttributes:
    """What an address is: the device, its addresses there and on the host, and its kind (``memoryType…``)."""

    __module__ = "anabranch.cupy.cuda.runtime"
    __slots__ = ("device", "devicePointer", "hostPointer", "type")

    def __init__(self, device: int, devicePointer: int, hostPointer: int, type: int = -1) -> None:
        self.type = type
        self.device = device
        self.devicePointer = devicePointer
        self.hostPointer = hostPointer


class MemPoolProps:
    """What a memory pool is made of: kinds of memory, of handles and of places, and the number of the device."""

    __module__ = "anabranch.cupy.cuda.runtime"
    __slots__ = ("allocType", "devId", "handleType", "locationType")

    def __init__(self, allocType: int, handleType: int, locationType: int, devId: int) -> None:
        self.allocType = allocType
        self.handleType = handleType
        self.locationType = locationType
        self.devId = devId


@of_runtime
def malloc(size: int) -> int:
    """Allocates memory of the current device. 0 bytes are no memory, and the address 0."""
    return _devices.raw().memory.allocate(size) if size else 0


@of_runtime
def mallocManaged(size: int, flags: int = constants.cudaMemAttachGlobal) -> int:
    """Allocates managed memory. Only ``cudaMemAttachGlobal`` is supported."""
    if flags != constants.cudaMemAttachGlobal:
        raise CUDARuntimeError(NOT_SUPPORTED if flags == constants.cudaMemAttachHost else INVALID_VALUE)
    return _devices.raw().memory.allocate_managed(size)


@of_runtime
def mallocAsync(size: int, stream: int) -> int:
    """Allocates memory in stream order, from the current pool of the current device."""
    if not size:
        return 0
    return _devices.raw().memory.allocate_async(size, stream, _POOLS.get(_devices.current()))


@of_runtime
def mallocFromPoolAsync(size: int, pool: int, stream: int) -> int:
    """Allocates memory in stream order, from a pool."""
    return _devices.raw().memory.allocate_async(size, stream, pool) if size else 0


@of_runtime
def free(ptr: int) -> None:
    """Frees memory that `malloc` or `mallocManaged` has allocated."""
    _devices.raw().memory.free(ptr)


@of_runtime
def freeAsync(ptr: int, stream: int) -> None:
    """Frees memory in stream order."""
    _devices.raw().memory.free_async(ptr, stream)


@of_runtime
def hostAlloc(size: int, flags: int) -> int:
    """Allocates pinned memory of the host, with a sum of ``hostAlloc…``."""
    return _devices.raw().memory.allocate_pinned(size, flags) if size else 0


@of_runtime
def freeHost(ptr: int) -> None:
    """Frees pinned memory."""
    if ptr:
        _devices.raw().memory.free_pinned(ptr)


@of_runtime
def hostRegister(ptr: int, size: int, flags: int) -> None:
    """Pins memory of the host."""
    _devices.raw().memory.register(ptr, size, flags)


@of_runtime
def hostUnregister(ptr: int) -> None:
    """Ends what `hostRegister` did."""
    _devices.raw().memory.unregister(ptr)


@of_runtime
def memGetInfo() -> tuple[int, int]:
    """The free and the total memory of the current device in bytes."""
    return _devices.raw().memory.info()


def _require_kind(kind: int) -> None:
    if kind not in _KINDS:
        raise CUDARuntimeError(INVALID_DIRECTION)


@of_runtime
def memcpy(dst: int, src: int, size: int, kind: int) -> None:
    """Copies memory in the legacy default stream, and waits until the host can use its side."""
    _require_kind(kind)
    _devices.raw().memory.copy(kind, dst, src, size)


@of_runtime
def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    """Copies memory in stream order."""
    _require_kind(kind)
    _devices.raw().memory.copy_async(kind, dst, src, size, stream)


@of_runtime
def memcpyPeer(dst: int, dstDevice: int, src: int, srcDevice: int, size: int) -> None:
    """Copies memory of one device to another in the legacy default stream. Does not wait."""
    memcpyPeerAsync(dst, dstDevice, src, srcDevice, size, LEGACY)


@of_runtime
def memcpyPeerAsync(dst: int, dstDevice: int, src: int, srcDevice: int, size: int, stream: int) -> None:
    """Copies memory of one device to another in stream order."""
    to, source = _devices.context(dstDevice), _devices.context(srcDevice)
    _devices.raw().memory.copy_peer_async(dst, to, src, source, size, stream)


@of_runtime
def memcpy2D(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> None:
    """Copies rows in the legacy default stream, and waits unless both sides are on the device."""
    memcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, LEGACY)
    if kind != constants.memcpyDeviceToDevice:
        _devices.raw().streams.synchronize(LEGACY)


@of_runtime
def memcpy2DAsync(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int) -> None:
    """Copies rows of ``width`` bytes in stream order, which begin ``dpitch`` and ``spitch`` bytes behind each other."""
    _require_kind(kind)
    memory = _devices.raw().memory
    if kind == constants.memcpyDefault:
        kind = _kind_between(dst, src)
    memory.copy_2d_async(kind, (dst, dpitch), (src, spitch), (width, height), stream)


def _kind_between(dst: int, src: int) -> int:
    if _is_pageable(src):
        return constants.memcpyHostToHost if _is_pageable(dst) else constants.memcpyHostToDevice
    return constants.memcpyDeviceToHost if _is_pageable(dst) else constants.memcpyDeviceToDevice


def _is_pageable(address: int) -> bool:
    try:
        _devices.raw().memory.range(address)
    except AnabranchError:
        return True
    return False


@of_runtime
def memset(ptr: int, value: int, size: int) -> None:
    """Fills bytes in the legacy default stream. Does not wait."""
    _devices.raw().memory.fill_async(ptr, value & 0xFF, size, LEGACY)


@of_runtime
def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    """Fills bytes in stream order."""
    _devices.raw().memory.fill_async(ptr, value & 0xFF, size, stream)


@of_runtime
def memPrefetchAsync(devPtr: int, count: int, dstDevice: int, stream: int) -> None:
    """Moves managed memory in stream order to a device, or to the host (``cudaCpuDeviceId``)."""
    device = None if dstDevice == constants.cudaCpuDeviceId else _devices.device(dstDevice).ordinal
    _devices.raw().memory.prefetch_async(devPtr, count, device, stream)


@of_runtime
def pointerGetAttributes(ptr: int) -> PointerAttributes:
    """What an address is. Memory that no driver knows is ``memoryTypeUnregistered``."""
    memory = _devices.raw().memory
    try:
        _, _, device = memory.range(ptr)
    except AnabranchError:
        return PointerAttributes(constants.cudaInvalidDeviceId, 0, 0, constants.memoryTypeUnregistered)
    if device is not None:
        return PointerAttributes(device, ptr, 0, constants.memoryTypeDevice)
    current = _devices.current()
    try:
        return PointerAttributes(current, memory.pinned_device_pointer(ptr), ptr, constants.memoryTypeHost)
    except AnabranchError:
        return PointerAttributes(current, ptr, ptr, constants.memoryTypeManaged)


@of_runtime
def pointerGetMemoryType(ptr: int) -> int:
    """The kind of memory of an address (``memoryType…``)."""
    return pointerGetAttributes(ptr).type


@of_runtime
def ipcGetMemHandle(devPtr: int) -> bytes:
    """Describes memory for other processes, in 64 bytes."""
    return _devices.raw().memory.export(devPtr)


@of_runtime
def ipcOpenMemHandle(handle: bytes, flags: int = constants.cudaIpcMemLazyEnablePeerAccess) -> int:
    """Opens memory of another process. ``flags`` must be ``cudaIpcMemLazyEnablePeerAccess``."""
    if flags != constants.cudaIpcMemLazyEnablePeerAccess:
        raise CUDARuntimeError(INVALID_VALUE)
    return _devices.raw().memory.open(handle)


@of_runtime
def ipcCloseMemHandle(devPtr: int) -> None:
    """Closes memory of another process."""
    _devices.raw().memory.close(devPtr)


@of_runtime
def deviceGetDefaultMemPool(device: int) -> int:
    """The handle of a device's default pool."""
    _devices.device(device)
    return _devices.raw(device).pools.default()


@of_runtime
def deviceGetMemPool(device: int) -> int:
    """The handle of the pool that `mallocAsync` uses on a device."""
    return _POOLS.get(device) or deviceGetDefaultMemPool(device)


@of_runtime
def deviceSetMemPool(device: int, pool: int) -> None:
    """Chooses the pool that `mallocAsync` uses on a device, in this module only."""
    _devices.device(device)
    # What is no pool is refused here, and not by later allocations.
    _devices.raw(device).pools.attribute(pool, constants.cudaMemPoolAttrReleaseThreshold)
    _POOLS[device] = pool


@of_runtime
def memPoolCreate(props: MemPoolProps) -> int:
    """Makes a pool of pinned memory of a device, for this process or for others by file descriptors."""
    supported = (constants.cudaMemAllocationTypePinned, constants.cudaMemLocationTypeDevice)
    if (props.allocType, props.locationType) != supported:
        raise CUDARuntimeError(INVALID_VALUE)
    interprocess = props.handleType == constants.cudaMemHandleTypePosixFileDescriptor
    if not interprocess and props.handleType != constants.cudaMemHandleTypeNone:
        raise CUDARuntimeError(NOT_SUPPORTED)
    _devices.device(props.devId)
    return _devices.raw(props.devId).pools.create(interprocess=interprocess)


@of_runtime
def memPoolDestroy(pool: int) -> None:
    """Destroys a pool. What was allocated from it remains."""
    _devices.raw().pools.destroy(pool)
    for device in [device for device, chosen in _POOLS.items() if chosen == pool]:
        _POOLS.pop(device, None)


@of_runtime
def memPoolTrimTo(pool: int, size: int) -> None:
    """Returns memory of a pool to the device, of which it keeps so much."""
    _devices.raw().pools.trim(pool, size)


@of_runtime
def memPoolGetAttribute(pool: int, attr: int) -> int:
    """An attribute of a pool: ``cudaMemPoolAttr…``. The rules of reuse are not known here."""
    return _devices.raw().pools.attribute(pool, attr)


@of_runtime
def memPoolSetAttribute(pool: int, attr: int, value: int) -> None:
    """Sets an attribute of a pool."""
    _devices.raw().pools.set_attribute(pool, attr, value)
