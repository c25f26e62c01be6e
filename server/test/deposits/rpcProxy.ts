/** A node before the real one that is away, behind or wrong when a test says so. */

interface RpcQuestion {
  readonly method: string
  readonly params: readonly unknown[]
}

/** Changes the answer to a question, or gives it back as it is. */
export type Falsify = (question: RpcQuestion, result: unknown) => unknown

export interface RpcProxy {
  /** With a secret in its path, as those of providers have. */
  readonly url: string
  /** False: it answers 503. */
  isUp: boolean
  falsify: Falsify
  /** Returns whether it answers with an error. */
  refuses: (question: RpcQuestion) => boolean
  /** Methods that it was asked for. */
  readonly asked: string[]
  close(): Promise<void>
}

/** A secret in the path of each node, which must be in no log and no answer. */
export const NODE_SECRET = 'node-secret-2f7c'

/** Starts one before the node at `target`. */
export function openRpcProxy(target: string): RpcProxy {
  const asked: string[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const question = (await request.json()) as RpcQuestion
      asked.push(question.method)
      if (!proxy.isUp || new URL(request.url).pathname !== `/v3/${NODE_SECRET}`)
        return new Response('', { status: 503 })
      if (proxy.refuses(question)) return Response.json({ id: 1, error: { code: -32_005, message: NODE_SECRET } })
      const headers = { 'Content-Type': 'application/json' }
      const answer = await fetch(target, { method: 'POST', headers, body: JSON.stringify(question) })
      const body = (await answer.json()) as { result?: unknown }
      if (body.result === undefined) return Response.json(body)
      return Response.json({ ...body, result: proxy.falsify(question, body.result) })
    },
  })
  const proxy: RpcProxy = {
    url: `http://127.0.0.1:${server.port}/v3/${NODE_SECRET}`,
    isUp: true,
    falsify: (_, result) => result,
    refuses: () => false,
    asked,
    close: () => server.stop(true),
  }
  return proxy
}
