/** A TCP proxy that can fall silent: connections stay open and nothing passes any more, as with a dead network. */

export interface SilentProxy {
  readonly port: number
  /** From now on nothing passes, on open connections and on new ones. */
  fallSilent(): void
  /** New connections pass again; those that were silenced stay so. */
  recover(): void
  stop(): void
}

interface Pair {
  other: Bun.Socket<Pair> | null
  silenced: boolean
  pending: Uint8Array[]
}

/** Starts a proxy to the socket that a URL of PostgreSQL names. It is for small test traffic: it does not heed backpressure. */
export async function startSilentProxy(databaseUrl: string): Promise<SilentProxy> {
  const unix = socketOf(databaseUrl)
  let silent = false
  const pairs = new Set<Pair>()
  const sockets = new Set<Bun.Socket<Pair>>()
  const newPair = (other: Bun.Socket<Pair> | null): Pair => {
    const pair = { other, silenced: silent, pending: [] }
    pairs.add(pair)
    return pair
  }
  const forward = (socket: Bun.Socket<Pair>, bytes: Uint8Array) => {
    if (socket.data.silenced) return
    if (socket.data.other === null) socket.data.pending.push(bytes.slice())
    else socket.data.other.write(bytes)
  }
  const end = (socket: Bun.Socket<Pair>) => {
    pairs.delete(socket.data)
    sockets.delete(socket)
    if (!socket.data.silenced) socket.data.other?.end()
  }
  const server = Bun.listen<Pair>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(client) {
        client.data = newPair(null)
        sockets.add(client)
        void Bun.connect<Pair>({
          unix,
          data: newPair(client),
          socket: {
            open(target) {
              sockets.add(target)
              client.data.other = target
              for (const bytes of client.data.pending.splice(0)) target.write(bytes)
            },
            data: forward,
            close: end,
          },
        }).catch(() => client.end())
      },
      data: forward,
      close: end,
    },
  })
  return {
    port: server.port,
    fallSilent() {
      silent = true
      for (const pair of pairs) pair.silenced = true
    },
    recover() {
      silent = false
    },
    stop() {
      server.stop(true)
      // The far side too: a PostgreSQL backend left waiting in its login holds up DROP DATABASE for a minute.
      for (const socket of sockets) socket.terminate()
    },
  }
}

function socketOf(databaseUrl: string): string {
  const { port, searchParams } = new URL(databaseUrl)
  return `${searchParams.get('host')}/.s.PGSQL.${port}`
}

/** The same URL with the proxy's port. */
export function throughProxy(url: string, proxy: SilentProxy): string {
  return overTcp(url, proxy.port)
}

/** The same URL with a port of this machine in place of a socket. */
export function overTcp(url: string, port: number): string {
  const changed = new URL(url)
  changed.port = String(port)
  changed.searchParams.delete('host')
  return changed.toString()
}
