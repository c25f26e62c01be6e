import { afterEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../../../test/rawServer.ts'
import { createHttp } from '../../infra/httpClient/client.ts'
import { failureOfStatus } from '../openai/failure.ts'
import { askJob, fetchFile, type JobRequest } from './jobs.ts'

const clock = new TurnedClock()
const running: RawServer[] = []
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
})

/** Asks a server that answers with this text, in chunks of one byte. */
async function requestOf(text: string): Promise<JobRequest> {
  const chunks = Buffer.concat([...text].map((each) => piece(each)))
  const server = await rawServer((socket) => {
    socket.write(head('200 OK', 'application/json'))
    socket.write(chunks)
    socket.write(END_OF_BODY)
  })
  running.push(server)
  return { url: server.url, headers: {}, signal: new AbortController().signal, connectMs: 5_000, failureOfStatus }
}

test('a file in chunks of one byte is handed on in larger pieces, each in a buffer of its own', async () => {
  const text = 'toll gate '.repeat(20_000)
  const pieces: Uint8Array[] = []
  for await (const each of await fetchFile(createHttp(clock), clock, await requestOf(text))) pieces.push(each)
  expect(Buffer.concat(pieces).toString()).toBe(text)
  expect(pieces.length).toBeLessThan(2_000)
  expect(new Set(pieces.map(({ buffer }) => buffer)).size).toBe(pieces.length)
})

test('the answer about a job in chunks of one byte is the same document', async () => {
  const document = { status: 'queued', note: 'x'.repeat(100_000) }
  const request = await requestOf(JSON.stringify(document))
  expect(await askJob(createHttp(clock), clock, 'GET', request)).toEqual({ status: 200, document })
})
