/** A TCP proxy that can fall silent: connections stay open and nothing passes any more, as with a dead network. */

export interface SilentProxy {
  readonly port: number
  /** From now on nothing passes, on open connections and on new ones. */
  fallSilent(): void
  /** Open connections are silent from now on, and neither side hears of it; new ones pass: a firewall has forgotten them. */
  forget(): void
  /**
   * New connections pass again. Those that were silenced stay so; or, `delivered`, all that they had sent and been told arrives now, as where
   * a network is whole again.
   */
  recover(silenced?: 'lost' | 'delivered'): void
  /**
   * Resolves when the database has answered all that it was asked over connections that pass, so that a test can turn its clock and nothing
   * is late on a busy machine. An answer may itself wait for the clock: then after {@link LOOKS_MOST} times `look`.
   */
  answered(look: () => Promise<unknown>): Promise<void>
  stop(): void
}

/** Each is a query at least: together some ten milliseconds for one step of the clock. */
const LOOKS_MOST = 50

interface Pair {
  other: Bun.Socket<Pair> | null
  silenced: boolean
  readonly isClient: boolean
  /** True when this side has sent something, and nothing has come back since. */
  isAsking: boolean
  /** True when this side has closed while it was silenced. */
  hasEnded: boolean
  /** The bytes that wait for the other side to be connected, or for the end of the silence. */
  held: Uint8Array[]
}

/** Starts a proxy to the socket that a URL of PostgreSQL names. It is for small test traffic: it does not heed backpressure. */
export async function startSilentProxy(databaseUrl: string): Promise<SilentProxy> {
  const wires = new Wires()
  const server = Bun.listen<Pair>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open: (client) => wires.connect(client, socketOf(databaseUrl)),
      data: (client, bytes) => wires.forward(client, bytes),
      close: (client) => wires.end(client),
    },
  })
  return {
    port: server.port,
    fallSilent: () => wires.silence(true),
    forget: () => wires.silence(false),
    recover: (silenced = 'lost') => wires.recover(silenced),
    async answered(look) {
      await look()
      for (let looks = 1; looks < LOOKS_MOST && wires.isAsked; looks += 1) await look()
    },
    stop() {
      server.stop(true)
      wires.terminate()
    },
  }
}

/** The connections between clients and the database, which may fall silent. */
class Wires {
  private isSilent = false
  private readonly pairs = new Set<Pair>()
  private readonly sockets = new Set<Bun.Socket<Pair>>()

  /** Returns whether the database owes an answer over a connection that passes. */
  get isAsked(): boolean {
    return [...this.pairs].some(({ isClient, silenced, isAsking }) => isClient && isAsking && !silenced)
  }

  connect(client: Bun.Socket<Pair>, unix: string): void {
    client.data = this.newPair(null)
    this.sockets.add(client)
    void Bun.connect<Pair>({
      unix,
      data: this.newPair(client),
      socket: {
        open: (target) => {
          this.sockets.add(target)
          client.data.other = target
          flush(client.data)
        },
        data: (target, bytes) => this.forward(target, bytes),
        close: (target) => this.end(target),
      },
    }).catch(() => client.end())
  }

  forward({ data: pair }: Bun.Socket<Pair>, bytes: Uint8Array): void {
    pair.held.push(bytes.slice())
    pair.isAsking = true
    if (pair.other !== null) pair.other.data.isAsking = false
    flush(pair)
  }

  end(socket: Bun.Socket<Pair>): void {
    this.sockets.delete(socket)
    socket.data.hasEnded = true
    if (!socket.data.silenced) this.pairs.delete(socket.data)
    flush(socket.data)
  }

  silence(newToo: boolean): void {
    this.isSilent = newToo
    for (const pair of this.pairs) pair.silenced = true
  }

  recover(silenced: 'lost' | 'delivered'): void {
    this.isSilent = false
    if (silenced === 'lost') return
    for (const pair of this.pairs) {
      pair.silenced = false
      flush(pair)
      if (pair.hasEnded) this.pairs.delete(pair)
    }
  }

  /** The far side too: a PostgreSQL backend left waiting in its login holds up DROP DATABASE for a minute. */
  terminate(): void {
    for (const socket of this.sockets) socket.terminate()
  }

  private newPair(other: Bun.Socket<Pair> | null): Pair {
    const { isSilent: silenced } = this
    const pair = { other, isClient: other === null, silenced, isAsking: false, hasEnded: false, held: [] }
    this.pairs.add(pair)
    return pair
  }
}

function flush(pair: Pair): void {
  if (pair.silenced || pair.other === null) return
  for (const bytes of pair.held.splice(0)) pair.other.write(bytes)
  if (pair.hasEnded) pair.other.end()
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
