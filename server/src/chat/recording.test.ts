import { expect, test } from 'bun:test'
import { Recording, toItsEnd } from './recording.ts'

async function* parts(taken: string[], end: () => string): AsyncGenerator<string, void> {
  for (const part of ['a', 'b', 'c']) {
    taken.push(part)
    yield part
  }
  yield end()
}

/** A recording whose whole is asked for before its last part goes out, as a charge does. */
function open() {
  const taken: string[] = []
  let whole = ''
  const recording = new Recording<string>((part) => `[${part}]`)
  const source = parts(taken, () => {
    whole = new TextDecoder().decode(recording.wholeWith('end'))
    return 'end'
  })
  return { taken, whole: () => whole, stream: toItsEnd(source, recording, () => undefined) }
}

test('what goes out, and what is remembered, are the same', async () => {
  const { stream, whole } = open()
  let text = ''
  for await (const piece of stream) text += piece
  expect(text).toBe('[a][b][c][end]')
  expect(whole()).toBe(text)
})

test('when its reader leaves it goes on to the end, and remembers all of it', async () => {
  const { stream, taken, whole } = open()
  expect((await stream.next()).value).toBe('[a]')
  await stream.return()
  expect(taken).toEqual(['a', 'b', 'c'])
  expect(whole()).toBe('[a][b][c][end]')
})

test('a source that fails is not asked again', async () => {
  let asked = 0
  async function* failing(): AsyncGenerator<string, void> {
    asked += 1
    yield 'a'
    throw new Error('broken')
  }
  const stream = toItsEnd(failing(), new Recording<string>((part) => part), () => undefined)
  await stream.next()
  const failure = await stream.next().catch((error: unknown) => error)
  expect(String(failure)).toContain('broken')
  expect(asked).toBe(1)
  expect((await stream.next()).done).toBe(true)
})

test('when another part comes in place of the last, that one goes out', async () => {
  const recording = new Recording<string>((part) => `[${part}]`)
  recording.wholeWith('end')
  recording.forgetLast()
  expect(recording.write('error')).toBe('[error]')
})
