/**
 * One connection to Redis or Valkey, by the runtime's own client. It is never connected a second time: reconnecting is
 * where clients keep their states wrong, so that whoever uses this opens another.
 */

export interface RedisConnection {
  /** Sends a command; commands are answered in their order. Rejects when the connection ends first. */
  send(command: string, words: readonly string[]): Promise<unknown>
  close(): void
}

/** Opens a connection. Rejects when the store can't be reached within `timeoutMs`, or refuses us. */
export type ConnectRedis = (url: string, timeoutMs: number) => Promise<RedisConnection>

export const connectRedis: ConnectRedis = async (url, timeoutMs) => {
  const client = new Bun.RedisClient(url, {
    connectionTimeout: timeoutMs,
    autoReconnect: false,
    enableOfflineQueue: false,
  })
  try {
    await client.connect()
  } catch (error) {
    client.close()
    throw error
  }
  return {
    send: (command, words) => client.send(command, [...words]),
    close: () => client.close(),
  }
}
