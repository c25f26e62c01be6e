import type { Readable } from 'node:stream'
import { type Clock, MINUTE_MS } from '../../lib/time.ts'

/** Native code can write a line for every token. */
const LINES_A_MINUTE = 60

/**
 * Calls `onLine` for each line of a stream, cut to `maximumCharacters`: native code may write without an end, and without
 * the end of a line.
 */
export function eachLine(stream: Readable, maximumCharacters: number, onLine: (line: string) => void): void {
  let line = ''
  const append = (text: string) => {
    if (line.length < maximumCharacters) line = (line + text).slice(0, maximumCharacters)
  }
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const [first = '', ...rest] = text.split('\n')
    append(first)
    for (const next of rest) {
      onLine(line)
      line = ''
      append(next)
    }
  })
  stream.on('end', () => {
    if (line !== '') onLine(line)
  })
}

/** Passes on so many lines a minute; what is more is dropped. */
export function limitLines(clock: Clock, onLine: (line: string) => void): (line: string) => void {
  let minute = 0
  let lines = 0
  return (line) => {
    const thisMinute = Math.floor(clock.monotonicMs() / MINUTE_MS)
    if (thisMinute !== minute) lines = 0
    minute = thisMinute
    lines += 1
    if (lines <= LINES_A_MINUTE) onLine(line)
  }
}
