import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { areDescriptorsShort, watchDescriptors } from './descriptors.ts'

/** Takes all descriptors but a few, and says what is told then and once they are free. */
const PROGRAM = `
import { closeSync, openSync } from 'node:fs'
import { areDescriptorsShort } from '${join(import.meta.dirname, 'descriptors.ts')}'
const taken = []
try { for (;;) taken.push(openSync('/dev/null', 'r')) } catch {}
for (const descriptor of taken.splice(0, Number(process.argv[1]))) closeSync(descriptor)
const isShort = areDescriptorsShort()
for (const descriptor of taken) closeSync(descriptor)
console.log(JSON.stringify([taken.length > 20, isShort, areDescriptorsShort()]))
`

test.each([
  [0, true],
  [10, true],
  [40, false],
])('with %p descriptors left they are short: %p', async (left, isShort) => {
  const command = ['sh', '-c', 'ulimit -n 128; exec "$0" -e "$1" "$2"', process.execPath, PROGRAM, `${left}`]
  const child = Bun.spawn(command, { stdout: 'pipe', stderr: 'pipe' })
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  expect({ output: output.trim(), errors }).toEqual({ output: JSON.stringify([true, isShort, false]), errors: '' })
})

test('of a process that has enough they are not', () => {
  expect(areDescriptorsShort()).toBe(false)
})

test('they are crowded once half are open, as is seen within a sixteenth of as many answers, until some are free', () => {
  let lowestFree: number | null = 511
  const areCrowded = watchDescriptors({ limit: () => 1_024, lowestFree: () => lowestFree })
  const answers = () => Array.from({ length: 64 }, areCrowded)
  expect(answers()).toEqual(Array(64).fill(false))
  for (const [free, isSo] of [
    [512, true],
    [null, true],
    [12, false],
  ] as const) {
    lowestFree = free
    expect(answers()).toEqual(Array(64).fill(isSo))
  }
})

test('where nobody knows how many there may be, they are crowded when none is left', () => {
  const counts = (lowestFree: number | null) => ({ limit: () => null, lowestFree: () => lowestFree })
  expect(watchDescriptors(counts(1_000_000))()).toBe(false)
  expect(watchDescriptors(counts(null))()).toBe(true)
})
