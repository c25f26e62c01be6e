import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs, writeSecretFile } from '../../../infra/folder.ts'
import type { Log } from '../../../lib/log.ts'
import type { Mail, MailTransport } from '../../../lib/mail.ts'
import { toTimestamp } from '../../../lib/time.ts'

const FILE_NAME = 'account-links'
/** Links expire: of a longer file the beginning is dropped. */
const CHARACTERS_MOST = 32_000

/** Stands in for a mail server on a loopback address: writes mails to a file that only this user may read, and logs its path. */
export function createLinkFile(dataDirectory: string, log: Log): Pick<MailTransport, 'send'> {
  const path = join(dataDirectory, FILE_NAME)
  let last: Promise<void> = Promise.resolve()
  const write = async ({ to, subject, text, dateMs }: Mail) => {
    const before = await readFile(path, 'utf8').catch(absentAs(''))
    const entry = `${toTimestamp(dateMs)} to ${to}: ${subject}\n\n${text}\n`
    await writeSecretFile(path, `${before}${entry}`.slice(-CHARACTERS_MOST))
    log.info({ path }, 'this server sends no mail: a link was written to a file')
  }
  return {
    send(mail) {
      last = last.catch(() => {}).then(() => write(mail))
      return last
    },
  }
}
