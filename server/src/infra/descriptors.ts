import { closeSync, openSync } from 'node:fs'

/** A request takes two: one of its client and one of its provider. Below so many a small burst fails. */
const SPARE = 16

/**
 * Returns whether the process, or the machine, has nearly no file descriptors left: then neither clients nor
 * providers are reached.
 */
export function areDescriptorsShort(): boolean {
  const opened: number[] = []
  try {
    while (opened.length < SPARE) opened.push(openSync('/dev/null', 'r'))
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && (error.code === 'EMFILE' || error.code === 'ENFILE')
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}
