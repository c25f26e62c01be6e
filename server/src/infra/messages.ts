/** Messages that a server sends as they come about, over a WebSocket. */

/** Characters of one message; longer ones are left out. */
const MESSAGE_MOST = 1 << 20

export interface MessagesOptions {
  /** Of http or https, as a base URL; ws or wss is made of it. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Each message in text; others are left out. */
  onText(text: string): void
  /** The connection is over, or could not be made; told once. */
  onClosed(): void
}

/** The runtime's own takes headers; the types are those of browsers, which take none. */
const Socket = WebSocket as unknown as new (
  url: string,
  options: { readonly headers: Readonly<Record<string, string>> },
) => WebSocket

/** Connects, and tells what comes; the result ends it. Nothing is tried again. */
export function listenForMessages({ url, headers, onText, onClosed }: MessagesOptions): () => void {
  let isOver = false
  const over = () => {
    if (isOver) return
    isOver = true
    onClosed()
  }
  const socket = new Socket(url.replace(/^http/, 'ws'), { headers })
  socket.addEventListener('message', ({ data }) => {
    if (!isOver && typeof data === 'string' && data.length <= MESSAGE_MOST) onText(data)
  })
  socket.addEventListener('close', over)
  socket.addEventListener('error', over)
  return () => {
    isOver = true
    socket.close()
  }
}
