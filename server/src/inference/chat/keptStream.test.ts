import { expect, test } from 'bun:test'
import { KeptStream } from './keptStream.ts'

const event = (json: string) => `data: {"model":"ä","content":${json}}\n\n`

test.each<[string, readonly string[]]>([
  ['no text', []],
  [
    'texts of every kind',
    ['a', '', 'line\nend\r\n', '"quoted\\"', 'ünïcödé', '漢字', '😀', '\ud83d', '\ude00', '\u2028'],
  ],
  ['more than a block', Array.from({ length: 5_000 }, (_, index) => ` ${index}é`)],
])('a stream with %s is given again as it was sent', (_, texts) => {
  const kept = new KeptStream()
  let sent = 'opening é'
  for (const text of texts) {
    const json = JSON.stringify(text)
    kept.add(json)
    sent += event(json)
  }
  const body = kept.body({ opening: 'opening é', event, end: 'end é' })
  for (let time = 0; time < 2; time += 1) {
    const bytes = Buffer.concat([...body.blocks()])
    expect(bytes.toString()).toBe(`${sent}end é`)
    expect(body.byteLength).toBe(bytes.byteLength)
  }
})
