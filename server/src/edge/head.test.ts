import { expect, test } from 'bun:test'
import { answerHead } from './head.ts'

test('HEAD has the status, the headers and the length of GET, and no body', async () => {
  const headers = { 'X-Request-Id': 'mine' }
  const request = new Request('http://gateway.test/v1/x', { method: 'HEAD', headers })
  const response = await answerHead(request, async (asked) => {
    expect(asked.method).toBe('GET')
    expect(asked.headers.get('X-Request-Id')).toBe('mine')
    return new Response('four', { status: 404, headers: { ETag: '"x"' } })
  })
  expect(response.status).toBe(404)
  expect(response.headers.get('ETag')).toBe('"x"')
  expect(response.headers.get('Content-Length')).toBe('4')
  expect(await response.text()).toBe('')
})
