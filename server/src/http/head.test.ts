import { expect, test } from 'bun:test'
import { answerHead } from './head.ts'

test('HEAD has the status, the headers and the length of GET, and no body', async () => {
  const get = async () => new Response('four', { status: 404, headers: { ETag: '"x"' } })
  const response = await answerHead(get, Date.UTC(2031, 4, 4, 12))
  expect(response.status).toBe(404)
  expect(response.headers.get('ETag')).toBe('"x"')
  expect(response.headers.get('Content-Length')).toBe('4')
  expect(response.headers.get('Date')).toBe('Sun, 04 May 2031 12:00:00 GMT')
  expect(await response.text()).toBe('')
})
