import { describe, expect, spyOn, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { MalformedResponse, ResponseReader } from './responseReader.ts'

interface Read {
  status: number | null
  headers: Record<string, string>
  keepsAlive: boolean
  body: string
  isWhole: boolean
  hasMore: boolean
}

/** Reads pieces as one connection brings them; `closes` when the other side then ends it. */
function read(pieces: readonly Buffer[], closes = false): Read {
  const seen: Read = { status: null, headers: {}, keepsAlive: false, body: '', isWhole: false, hasMore: false }
  const taken: Uint8Array[] = []
  const reader = new ResponseReader({
    head(head) {
      seen.status = head.status
      seen.headers = Object.fromEntries(head.headers)
      seen.keepsAlive = head.keepsAlive
    },
    body(piece) {
      taken.push(piece)
    },
    end() {
      expect(seen.isWhole).toBe(false)
      seen.isWhole = true
    },
  })
  for (const piece of pieces) seen.hasMore = reader.push(piece) || seen.hasMore
  if (closes) expect(reader.endOfInput()).toBe(seen.isWhole)
  // Only now: bytes that come later must leave a piece as it is.
  seen.body = Buffer.concat(taken).toString('latin1')
  return seen
}

const readText = (text: string, closes = false) => read([Buffer.from(text, 'latin1')], closes)

const body = fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes))

/** A response of each framing that has an end of its own, with the body in it. */
const response = fc
  .tuple(body, fc.constantFrom('sized', 'chunked', 'with an interim response'), fc.array(fc.nat(40)))
  .map(([bytes, framing, sizes]) => {
    const interim = framing === 'with an interim response' ? 'HTTP/1.1 100 Continue\r\nX-A: b\r\n\r\n' : ''
    if (framing !== 'chunked') {
      return {
        bytes,
        wire: Buffer.concat([
          Buffer.from(`${interim}HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\n\r\n`),
          bytes,
        ]),
      }
    }
    const parts = [Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')]
    let from = 0
    for (const size of [...sizes.filter((each) => each > 0), bytes.length]) {
      const chunk = bytes.subarray(from, from + size)
      if (chunk.length === 0) break
      from += chunk.length
      parts.push(Buffer.from(`${chunk.length.toString(16)};x=y\r\n`), chunk, Buffer.from('\r\n'))
    }
    return { bytes, wire: Buffer.concat([...parts, Buffer.from('0\r\nX-Trailer: 1\r\n\r\n')]) }
  })

test('however a response is cut on its way, the same is read of it', () => {
  fc.assert(
    fc.property(response, fc.array(fc.nat(200)), ({ bytes, wire }, cuts) => {
      const places = [0, ...[...cuts].sort((a, b) => a - b), wire.length]
      const pieces = places.slice(1).map((place, index) => wire.subarray(places[index], place))
      const seen = read(pieces)
      expect([seen.status, seen.body, seen.isWhole, seen.hasMore]).toEqual([200, bytes.toString('latin1'), true, false])
    }),
    { numRuns: 500 },
  )
})

test('a header of blanks is read as quickly as any other', () => {
  const blanks = ' \t'.repeat(30_000)
  const answer = (line: string) => readText(`HTTP/1.1 204 No Content\r\n${line}\r\n\r\n`)
  expect(answer(`X-A:${blanks}a${blanks.slice(0, 200)}`).headers).toEqual({ 'x-a': 'a' })
  expect(answer(`X-A:${blanks}`).headers).toEqual({ 'x-a': '' })
  // Each of these would have kept an expression with blanks at both ends busy for hours.
  for (const end of ['\0', '\n', '\r']) expect(() => answer(`X-A:${blanks}${end}`)).toThrow(MalformedResponse)
  expect(answer(`X-A: a${blanks}b`).headers['x-a']).toHaveLength(60_002)
})

/** Returns how many bytes were searched, and copied, while `work` ran. */
function bytesWorkedOn(work: () => void): { searched: number; copied: number } {
  const done = { searched: 0, copied: 0 }
  const { indexOf, copy } = Buffer.prototype
  const { concat, from } = Buffer
  function searching(this: Buffer, word: Buffer, place = 0): number {
    const found = indexOf.call(this, word, place)
    done.searched += (found < 0 ? this.length : found) - place
    return found
  }
  function copying(this: Buffer, to: Buffer, ...places: number[]): number {
    const copied = copy.call(this, to, ...places)
    done.copied += copied
    return copied
  }
  const joining = (pieces: readonly Uint8Array[]) => {
    const whole = concat(pieces)
    done.copied += whole.length
    return whole
  }
  const copyOf = (bytes: Buffer) => {
    done.copied += bytes.length
    return from(bytes)
  }
  const spies = [
    spyOn(Buffer.prototype, 'indexOf').mockImplementation(searching as typeof indexOf),
    spyOn(Buffer.prototype, 'copy').mockImplementation(copying as typeof copy),
    spyOn(Buffer, 'concat').mockImplementation(joining as typeof concat),
    spyOn(Buffer, 'from').mockImplementation(copyOf as typeof from),
  ]
  try {
    work()
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
  return done
}

const LONG = 60_000
test.each([
  ['a head', `HTTP/1.1 204 No Content\r\nX-A: ${'a'.repeat(LONG)}\r\n\r\n`],
  ['a head of many lines', `HTTP/1.1 204 No Content\r\n${'X-A: b\r\n'.repeat(LONG / 8)}\r\n`],
  ['trailers', `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: ${'a'.repeat(LONG)}\r\n\r\n`],
  ['chunks', `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(LONG / 6)}0\r\n\r\n`],
])('bytes that come one by one are searched and copied a few times each: %s', (_name, text) => {
  const wire = Buffer.from(text)
  const pieces = Array.from(wire, (_byte, index) => wire.subarray(index, index + 1))
  const whole = read([wire])
  const reader = new ResponseReader({ head() {}, body() {}, end() {} })
  const { searched, copied } = bytesWorkedOn(() => {
    for (const piece of pieces) reader.push(piece)
  })
  expect(read(pieces)).toEqual(whole)
  expect(whole.isWhole).toBe(true)
  expect(searched).toBeLessThanOrEqual(4 * wire.length)
  // Once as they come, and twice more while their room doubles.
  expect(copied).toBeLessThanOrEqual(3 * wire.length)
})

test('a response that is cut off is never whole', () => {
  fc.assert(
    fc.property(response, fc.nat(), ({ wire }, place) => {
      const seen = read([wire.subarray(0, place % wire.length)], true)
      expect(seen.isWhole).toBe(false)
    }),
    { numRuns: 500 },
  )
})

test('whatever comes, it is read or refused', () => {
  const words = fc.constantFrom(
    'HTTP/1.1 200 OK',
    '\r\n',
    ': ',
    'Content-Length',
    'Transfer-Encoding',
    'chunked',
    '5',
    '0',
    ',',
    ' ',
    '\n',
    'x',
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(words, fc.string({ maxLength: 5 })), { maxLength: 30 }), (parts) => {
      try {
        readText(parts.join(''))
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedResponse)
      }
    }),
    { numRuns: 2_000 },
  )
})

const OK = 'HTTP/1.1 200 OK\r\n'

describe('refused', () => {
  test.each([
    ['another protocol', '220 mail ready\r\n\r\n'],
    ['a later version', 'HTTP/2 200\r\n\r\n'],
    ['a change of the protocol', 'HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n'],
    ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['a folded header', `${OK}X-A: b\r\n c\r\n\r\n`],
    ['a header without a colon', `${OK}nonsense\r\n\r\n`],
    ['a space before the colon', `${OK}Content-Length : 5\r\n\r\n`],
    ['a bare line feed', `${OK}X-A: b\nContent-Length: 5\r\n\r\n`],
    ['a zero byte', `${OK}X-A: b\0\r\n\r\n`],
    ['a negative length', `${OK}Content-Length: -5\r\n\r\n`],
    ['a hexadecimal length', `${OK}Content-Length: 0x5\r\n\r\n`],
    ['two lengths', `${OK}Content-Length: 5\r\nContent-Length: 6\r\n\r\n`],
    ['a list of lengths', `${OK}Content-Length: 5, 6\r\n\r\n`],
    ['another transfer encoding', `${OK}Transfer-Encoding: gzip\r\n\r\n`],
    ['two transfer encodings', `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n`],
    ['a chunk without a length', `${OK}Transfer-Encoding: chunked\r\n\r\n\r\nabc`],
    ['a chunk of a nonsense length', `${OK}Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc`],
    ['a chunk that is longer than announced', `${OK}Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n`],
    ['a chunk of terabytes', `${OK}Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n`],
    ['an endless chunk line', `${OK}Transfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(2_000)}`],
    ['endless headers', `${OK}${'X-A: b\r\n'.repeat(20_000)}`],
    ['endless trailers', `${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n${'X-A: b\r\n'.repeat(20_000)}`],
    ['interim responses without end', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(5_000)],
  ])('%s', (_name, text) => {
    expect(() => readText(text)).toThrow(MalformedResponse)
  })
})

describe('read', () => {
  test('a body without framing, to the end of the connection', () => {
    expect(readText(`${OK}\r\nabc`, true)).toMatchObject({ body: 'abc', isWhole: true, keepsAlive: false })
  })

  test.each(['204 No Content', '304 Not Modified'])('%s, which has no body', (status) => {
    const text = `HTTP/1.1 ${status}\r\nContent-Length: 5\r\n\r\n`
    expect(readText(text)).toMatchObject({ body: '', isWhole: true, keepsAlive: true })
  })

  test('lengths that agree, headers of one name, and any case', () => {
    const seen = readText(`${OK}CONTENT-length: 2\r\nContent-Length: 2\r\nX-A: b\r\nx-a:c\r\n\r\nok`)
    expect(seen).toMatchObject({ body: 'ok', isWhole: true, headers: { 'x-a': 'b, c' } })
  })

  test('no further than one response', () => {
    expect(readText(`${OK}Content-Length: 2\r\n\r\nok${OK}`)).toMatchObject({ isWhole: true, hasMore: true })
  })

  test('a head that came before as it was, and one of its length by itself', () => {
    const [first, other] = ['1', '2'].map((id) => `${OK}X-Id: ${id}\r\nContent-Length: ${id}\r\n\r\nok`)
    for (const text of [first, first, other, first]) {
      const id = text === other ? '2' : '1'
      const expected = { status: 200, headers: { 'x-id': id, 'content-length': id }, body: 'ok'.slice(0, Number(id)) }
      expect(readText(text ?? '')).toMatchObject(expected)
    }
    expect(() => readText(first?.replace('X-Id', 'X-I\0') ?? '')).toThrow(MalformedResponse)
  })

  test('both framings by their chunks, on a connection that then ends', () => {
    const text = `${OK}Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`
    expect(readText(text)).toMatchObject({ body: 'ok', isWhole: true, keepsAlive: false })
  })
})
