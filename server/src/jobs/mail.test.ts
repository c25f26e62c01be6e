/** The words of a mail that failed. */

import { expect, test } from 'bun:test'
import { sendMail } from './mail.ts'

const MAIL = {
  to: 'ada@example.com',
  subject: 'A link',
  text: 'https://t.test/?token=1',
  id: 'a'.repeat(32),
  dateMs: 0,
}

test.each([
  [{ code: 'EAUTH', responseCode: 535 }, 'EAUTH 535'],
  [{ code: 'ECONNREFUSED' }, 'ECONNREFUSED'],
  [{}, 'unknown'],
])(
  'the reason of a mail that failed has the codes %p, and nothing that the mail server said',
  async (codes, expected) => {
    const failure = Object.assign(new Error('no mailbox ada@example.com'), codes)
    const sent = await sendMail({ send: () => Promise.reject(failure) }, MAIL)
    expect(sent).toEqual({ kind: 'failed', reason: `the mail could not be sent: ${expected}` })
  },
)
