/** HTTP for the operator's commands, which talk to a running server. No call to a model goes through it. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Follows no redirect: a key goes to the server that was named, and nowhere else. */
export const systemFetch: Fetch = (url, init) => fetch(url, { ...init, redirect: 'manual' })
