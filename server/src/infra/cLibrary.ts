import { dlopen, type FFIFunction, type Library } from 'bun:ffi'

/** Of glibc, and of musl. */
const LIBRARIES = ['libc.so.6', 'libc.so'] as const

/** Functions of the C library, called as C calls them: `symbols` says their arguments. Linux only. Throws where there is none. */
export function openCLibrary<Symbols extends Record<string, FFIFunction>>(symbols: Symbols): Library<Symbols> {
  const [glibc, musl] = LIBRARIES
  try {
    return dlopen(glibc, symbols)
  } catch {
    return dlopen(musl, symbols)
  }
}
