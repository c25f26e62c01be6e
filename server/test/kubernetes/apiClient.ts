/** The API of Kubernetes for tests, without its client: paths and JSON. */

export interface ApiClient {
  /** The JSON of the answer. Throws where the status is none of success. */
  call<T = Record<string, unknown>>(method: string, path: string, body?: object, contentType?: string): Promise<T>
  status(method: string, path: string, body?: object): Promise<number>
}

export function apiClient(server: string, ca: string, token: string): ApiClient {
  const send = (method: string, path: string, body: object | undefined, contentType = 'application/json') =>
    fetch(`${server}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': contentType },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      tls: { ca },
    })
  return {
    async call<T>(method: string, path: string, body?: object, contentType?: string) {
      const answer = await send(method, path, body, contentType)
      const text = await answer.text()
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
      return JSON.parse(text) as T
    },
    async status(method, path, body) {
      const answer = await send(method, path, body)
      await answer.text()
      return answer.status
    },
  }
}
