import { expect, test } from 'bun:test'
import { createLog } from './log.ts'

test('a line holds no control character but its end, and reads back as it was logged', () => {
  const lines: string[] = []
  const log = createLog('info', { write: (line) => void lines.push(line) })
  const requestId = 'a\x9b31mred\x7f\x80\u00ff \u001b[31m'
  log.info({ requestId }, 'answered\u0085')
  const [line = ''] = lines
  expect(line).toMatch(/^\P{Cc}+\n$/u)
  expect(JSON.parse(line)).toMatchObject({ requestId, msg: 'answered\u0085' })
})
