import { connect, type Socket } from 'node:net'
import type { SMTPTransportOptions } from 'nodemailer'
import type { Mail, MailTransport, SmtpServer } from '../lib/mail.ts'
import { type Clock, MINUTE_MS, SECOND_MS } from '../lib/time.ts'

/** For a whole mail, from the connection to the server's answer: a server that trickles is not waited for either. */
const MAIL_MS = MINUTE_MS

/** Without a byte from the server. */
const SILENCE_MS = 30 * SECOND_MS

/** Sends mails through a server, each over a connection of its own. Connects to nothing before there is one to send. */
export function createMailTransport(server: SmtpServer, clock: Clock): MailTransport {
  const sockets = new Set<Socket>()
  return {
    async send(mail) {
      // Loaded with the first mail: most processes send none.
      const { createTransport } = await import('nodemailer')
      let socket: Socket | null = null
      const transport = createTransport({
        ...optionsOf(server),
        // The connection is made here, so that it can be ended here.
        getSocket: ((_, callback) => {
          socket = connect({ host: server.host, port: server.port })
          sockets.add(socket)
          const opened = socket
          const onError = (error: Error) => callback(error)
          opened.once('error', onError)
          opened.once('connect', () => {
            opened.off('error', onError)
            callback(null, { connection: opened })
          })
        }) satisfies NonNullable<SMTPTransportOptions['getSocket']>,
      })
      let cancelTimer = () => {}
      const late = new Promise<never>((_, reject) => {
        cancelTimer = clock.after(MAIL_MS, () => reject(Object.assign(new Error('too late'), { code: 'ETIMEDOUT' })))
      })
      try {
        await Promise.race([transport.sendMail(messageOf(mail, server)), late])
      } finally {
        cancelTimer()
        end(socket)
      }
    },
    close() {
      for (const socket of sockets) socket.destroy()
    },
  }

  function end(socket: Socket | null): void {
    if (socket === null) return
    sockets.delete(socket)
    // An error after the mail is of no interest.
    socket.on('error', () => {})
    socket.destroy()
  }
}

function optionsOf({ host, port, tls, login }: SmtpServer) {
  return {
    host,
    port,
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    ...(login === null ? {} : { auth: { user: login.user, pass: login.password.reveal() } }),
    greetingTimeout: SILENCE_MS,
    socketTimeout: SILENCE_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}

function messageOf({ to, subject, text, id, dateMs }: Mail, { from }: SmtpServer) {
  const domain = from.slice(from.lastIndexOf('@') + 1).replace('>', '')
  return {
    from,
    to: { name: '', address: to },
    subject,
    text,
    date: new Date(dateMs),
    messageId: `<${id}@${domain}>`,
    // No vacation notes, please.
    headers: { 'Auto-Submitted': 'auto-generated' },
  }
}
