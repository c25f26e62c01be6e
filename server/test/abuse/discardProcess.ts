/** A server that reads requests, throws their bytes away and answers 200: what an attack is compared with. Prints its port. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const ANSWER = '{}'
const HEADERS = { 'Content-Type': 'application/json', 'Content-Length': ANSWER.length }

const server = createServer((request, response) => {
  request.on('error', () => {})
  response.on('error', () => {})
  request.resume()
  request.on('end', () => response.writeHead(200, HEADERS).end(ANSWER))
})
server.on('clientError', (_error, socket) => socket.destroy())
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
