import { dlopen, FFIType } from 'bun:ffi'

const CLOCK_MONOTONIC = 1

/** Microseconds of the kernel's monotonic clock: Bun's own clocks start anew in each process, or are off by up to
 * a millisecond between two of them. */
function kernelMicroseconds(): number {
  const libc = dlopen('libc.so.6', { clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 } })
  const instant = new BigInt64Array(2)
  libc.symbols.clock_gettime(CLOCK_MONOTONIC, instant)
  libc.close()
  return Number(instant[0]) * 1e6 + Number(instant[1]) / 1e3
}

const originMicroseconds = kernelMicroseconds() - performance.now() * 1000

/** Microseconds of one clock that all processes and threads of this machine share (Linux). */
export function sharedMicroseconds(): number {
  return originMicroseconds + performance.now() * 1000
}
