/** A real SMTP server on the loopback address, that keeps the mails it takes. */

import type { Socket } from 'node:net'
import { SMTPServer } from 'smtp-server'

export interface ReceivedMail {
  readonly to: string
  /** Headers and body as they came over the wire, quoted-printable decoded. */
  readonly text: string
  readonly messageId: string
}

export interface MailServer {
  readonly port: number
  readonly mails: readonly ReceivedMail[]
  /** Resolves when so many mails have arrived in all. */
  arrived(count: number): Promise<void>
  close(): Promise<void>
}

export interface MailServerOptions {
  /** Breaks every connection off at once, for as long as it says true. */
  readonly isDown?: () => boolean
  /** Refuses what is sent to this address, for now. */
  readonly refused?: string
  /** Called when a mail begins to arrive; the server goes on when it resolves. */
  readonly onMail?: () => Promise<void>
  /** Mails are taken after STARTTLS, or, with `implicit`, on connections encrypted from the first byte. */
  readonly tls?: { readonly key: string; readonly cert: string; readonly implicit?: boolean }
  /** The login of those who may send; without it anybody may. Asked for on encrypted connections only. */
  readonly login?: { readonly user: string; readonly password: string }
}

export async function openMailServer(options: MailServerOptions = {}): Promise<MailServer> {
  const { isDown = () => false, refused, onMail, tls, login } = options
  const mails: ReceivedMail[] = []
  const waiting: { readonly count: number; readonly resolve: () => void }[] = []
  const server = new SMTPServer({
    ...(tls === undefined ? {} : { key: tls.key, cert: tls.cert, secure: tls.implicit ?? false }),
    authOptional: login === undefined,
    disabledCommands: [...(tls === undefined ? ['STARTTLS'] : []), ...(login === undefined ? ['AUTH'] : [])],
    onAuth({ username, password }, _session, callback) {
      const isKnown = username === login?.user && password === login?.password
      callback(isKnown ? null : new Error('who are you?'), isKnown ? { user: username } : undefined)
    },
    onMailFrom(_address, session, callback) {
      callback(tls === undefined || session.secure ? null : new Error('encrypt first'))
    },
    disableReverseLookup: true,
    onRcptTo({ address }, _session, callback) {
      callback(address === refused ? Object.assign(new Error('not now'), { responseCode: 450 }) : null)
    },
    onData(stream, session, callback) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', async () => {
        await onMail?.()
        const raw = Buffer.concat(chunks).toString('latin1')
        const text = textOf(raw)
        const messageId = /^Message-ID: <(.*)>/im.exec(raw)?.[1] ?? ''
        for (const { address } of session.envelope.rcptTo) mails.push({ to: address, text, messageId })
        callback()
        for (const { count, resolve } of waiting) if (mails.length >= count) resolve()
      })
    },
  })
  server.on('error', () => {})
  server.server.prependListener('connection', (socket: Socket) => {
    if (isDown()) socket.destroy()
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.server.address()
  return {
    port: address !== null && typeof address === 'object' ? address.port : 0,
    mails,
    arrived: (count) =>
      new Promise((resolve) => {
        if (mails.length >= count) resolve()
        else waiting.push({ count, resolve })
      }),
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

/** A mail as its reader sees it. Only where it says that it is quoted-printable, `=3D` stands for another character. */
function textOf(raw: string): string {
  if (!/^Content-Transfer-Encoding: quoted-printable/im.test(raw)) return raw
  return raw
    .replaceAll('=\r\n', '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
}
