import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { wholeOf } from '../../server/test/jobServer.ts'
import { sendRequest } from './sendRequest.ts'

type Answering = (request: IncomingMessage, response: ServerResponse) => void

let answering: Answering
let base: string
const server = createServer((request, response) => answering(request, response))
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const never = () => new AbortController().signal
const get = (signal = never()) => sendRequest(base, { method: 'GET', headers: {}, signal })

test('a request arrives with its headers and its body, and the answer comes with its own', async () => {
  answering = async (request, response) => {
    const { method, url, headers } = request
    const body = (await wholeOf(request)).toString()
    response.writeHead(201, { 'X-Many': ['a', 'b'] })
    response.end(
      JSON.stringify({ method, url, body, key: headers['idempotency-key'], length: headers['content-length'] }),
    )
  }
  const headers = { 'Idempotency-Key': 'k1' }
  const response = await sendRequest(`${base}/v1/x?y=1`, { method: 'POST', headers, body: 'tür', signal: never() })
  expect([response.status, response.headers.get('x-many')]).toEqual([201, 'a, b'])
  expect(await response.json()).toEqual({ method: 'POST', url: '/v1/x?y=1', body: 'tür', key: 'k1', length: '4' })
})

test('an answer without a body is one, and a redirect is not followed', async () => {
  answering = (_, response) => void response.writeHead(204).end()
  expect([(await get()).status, (await get()).body]).toEqual([204, null])
  answering = (_, response) => void response.writeHead(302, { Location: 'http://127.0.0.1:1/' }).end()
  expect((await get()).status).toBe(302)
})

test('nothing at all, half an answer and a status that is none are rejected, with the code of the system', async () => {
  answering = (request) => request.socket.destroy()
  await expect(get()).rejects.toMatchObject({ code: 'ECONNRESET' })
  answering = (request, response) => {
    response.writeHead(200, { 'Content-Length': '10' })
    response.write('half', () => request.socket.destroy())
  }
  await expect((await get()).text()).rejects.toThrow()
  answering = (request) => void request.socket.end('HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n')
  await expect(get()).rejects.toThrow()
  const closed = sendRequest('http://127.0.0.1:1', { method: 'GET', headers: {}, signal: never() })
  await expect(closed).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test('the signal ends the wait for an answer, and an answer that has begun', async () => {
  const leaving = new AbortController()
  answering = () => leaving.abort()
  await expect(get(leaving.signal)).rejects.toThrow()
  const reading = new AbortController()
  answering = (_, response) => void response.writeHead(200).write('begun')
  const reader = (await get(reading.signal)).body?.getReader()
  expect(new TextDecoder().decode((await reader?.read())?.value)).toBe('begun')
  const rest = reader?.read()
  reading.abort()
  await expect(rest).rejects.toThrow()
})
