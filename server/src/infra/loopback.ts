import { FFIType } from 'bun:ffi'
import { openCLibrary } from './cLibrary.ts'

const AF_INET = 2
const SOCK_DGRAM = 2
const SIOCSIFFLAGS = 0x8914
const IFF_UP = 1
/** `struct ifreq`: a name of 16 bytes, then the flags; all of it has 40. */
const REQUEST_BYTES = 40
const FLAGS_AT = 16

/** Sets the loopback interface of this process's network namespace up: in a new one it is down. Throws where that is refused. */
export function raiseLoopback(): void {
  const { socket, ioctl, close } = openCLibrary({
    socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    ioctl: { args: [FFIType.i32, FFIType.u64, FFIType.ptr], returns: FFIType.i32 },
    close: { args: [FFIType.i32], returns: FFIType.i32 },
  }).symbols
  const handle = socket(AF_INET, SOCK_DGRAM, 0)
  const request = new Uint8Array(REQUEST_BYTES)
  request.set(Buffer.from('lo'))
  new DataView(request.buffer).setInt16(FLAGS_AT, IFF_UP, true)
  const failed = handle < 0 || ioctl(handle, SIOCSIFFLAGS, request) !== 0
  if (handle >= 0) close(handle)
  if (failed) throw new Error('the loopback interface of a new network namespace could not be set up')
}
