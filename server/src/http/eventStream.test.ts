import { describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { StreamClient } from '../../test/streamClient.ts'
import { OwnSignal } from '../lib/callSignal.ts'
import { EventSender } from './eventStream.ts'

/** A source that a test feeds, and that remembers how it was treated. */
class Source {
  readonly clock = new TurnedClock()
  readonly gone = new OwnSignal()
  asked = 0
  cleanUps = 0
  ends = 0
  private give: (text: string | Error | null) => void = () => {}

  /** Its next piece; null ends it, an error breaks it. */
  async says(text: string | Error | null): Promise<void> {
    this.give(text)
    await turn()
  }

  open(pieces: AsyncGenerator<string, void> = this.pieces()): StreamClient {
    const { clock, gone } = this
    const onEnd = () => {
      this.ends += 1
    }
    const client = new StreamClient(gone)
    void new EventSender(pieces, (piece) => piece, { clock, gone, onEnd }).begin(client)
    return client
  }

  async *pieces(): AsyncGenerator<string, void> {
    const heedsAbort = new Promise<null>((resolve) => {
      this.gone.addEventListener('abort', () => resolve(null))
    })
    try {
      for (;;) {
        this.asked += 1
        const given = new Promise<string | Error | null>((resolve) => {
          this.give = resolve
        })
        const text = await Promise.race([given, heedsAbort])
        if (text === null) return
        if (text instanceof Error) throw text
        yield text
      }
    } finally {
      this.cleanUps += 1
    }
  }

  /** A source that is never at a loss. */
  async *endless(): AsyncGenerator<string, void> {
    try {
      for (;;) {
        this.asked += 1
        yield 'x'.repeat(1_024)
      }
    } finally {
      this.cleanUps += 1
    }
  }

  get isOver(): boolean {
    return this.ends === 1 && this.cleanUps === 1 && this.clock.pending === 0
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

describe('an event stream', () => {
  test('passes on what its source says, then ends, and has ended once', async () => {
    const source = new Source()
    const reader = source.open()
    await source.says('one')
    expect(await reader.read()).toBe('one')
    await source.says('two')
    await source.says(null)
    expect(await reader.read()).toBe('two')
    expect(await reader.read()).toBeNull()
    expect(source.isOver).toBe(true)
  })

  test('sends a part that is here in the turn in which it begins, while the head has not left yet', async () => {
    const source = new Source()
    const { clock, gone } = source
    const sender = new EventSender(source.pieces(), (piece) => piece, { clock, gone, onEnd: () => {} })
    await source.says('one')
    const written: string[] = []
    const write = (text: string) => written.push(text)
    void sender.begin({ write, flush: () => {}, end: () => {}, close: () => {} })
    expect(written).toEqual(['one'])
    await source.says('two')
    expect(written).toEqual(['one', 'two'])
  })

  test('says something every 15 s while its source is silent, and only then', async () => {
    const source = new Source()
    const reader = source.open()
    await source.clock.turn(14_999)
    await source.says('first')
    expect(await reader.read()).toBe('first')
    await source.clock.turn(14_999)
    await source.clock.turn(1)
    expect(await reader.read()).toBe(': keep-alive\n\n')
    await source.clock.turn(30_000)
    expect(await reader.read()).toBe(': keep-alive\n\n')
    expect(await reader.read()).toBe(': keep-alive\n\n')
    await source.says('second')
    expect(await reader.read()).toBe('second')
  })

  test('is read ahead by its buffer and no further', async () => {
    const source = new Source()
    const reader = source.open(source.endless())
    await turn()
    expect(source.asked).toBe(16)
    await reader.read()
    await turn()
    expect(source.asked).toBe(17)
  })

  test('gives up a client that takes nothing for 60 s', async () => {
    const source = new Source()
    source.open(source.endless())
    await source.clock.turn(59_999)
    expect(source.gone.aborted).toBe(false)
    await source.clock.turn(1)
    expect(source.gone.aborted).toBe(true)
    expect(source.isOver).toBe(true)
  })

  test('does not give up a client that reads slowly', async () => {
    const source = new Source()
    const reader = source.open(source.endless())
    for (let minute = 0; minute < 5; minute += 1) {
      await source.clock.turn(59_000)
      await reader.read()
    }
    expect(source.gone.aborted).toBe(false)
    expect(source.ends).toBe(0)
  })

  test('does not blame the client for a silent source', async () => {
    const source = new Source()
    source.open()
    await source.clock.turn(600_000)
    expect(source.gone.aborted).toBe(false)
  })
})

describe('a client that hangs up', () => {
  test('before the first piece was asked for: the source still runs its clean-up', async () => {
    const source = new Source()
    await source.open().cancel()
    await turn()
    expect(source.gone.aborted).toBe(true)
    expect(source.isOver).toBe(true)
  })

  test('while the source is silent', async () => {
    const source = new Source()
    const reader = source.open()
    await source.says('one')
    await reader.read()
    source.gone.abort(null)
    await turn()
    expect(source.isOver).toBe(true)
  })

  test('while pieces wait for it', async () => {
    const source = new Source()
    const reader = source.open(source.endless())
    await reader.read()
    await reader.cancel()
    await turn()
    expect(source.isOver).toBe(true)
  })

  test('before the stream was made', async () => {
    const source = new Source()
    source.gone.abort(null)
    source.open(source.endless())
    await turn()
    expect(source.isOver).toBe(true)
  })

  test('twice over, by signal and by stream: it has ended once', async () => {
    const source = new Source()
    const reader = source.open()
    source.gone.abort(null)
    await reader.cancel()
    await turn()
    expect(source.isOver).toBe(true)
  })

  test('during the clean-up of a source that has just ended', async () => {
    const source = new Source()
    const reader = source.open()
    await source.says(null)
    source.gone.abort(null)
    await reader.cancel()
    await turn()
    expect(source.isOver).toBe(true)
  })
})

describe('a source that throws', () => {
  test('breaks the stream, so that nobody takes it for whole, and has ended', async () => {
    const source = new Source()
    const reader = source.open()
    await source.says('one')
    expect(await reader.read()).toBe('one')
    await source.says(new Error('unexpected'))
    expect(reader.read()).rejects.toThrow('unexpected')
    await turn()
    expect(source.isOver).toBe(true)
  })

  test('while the client hangs up', async () => {
    const source = new Source()
    source.open()
    const thrown = source.says(new Error('unexpected'))
    source.gone.abort(null)
    await thrown
    await turn()
    expect(source.isOver).toBe(true)
  })
})
