import type { getAdapter } from 'better-auth/db/adapter'
import { hashToken } from './token.ts'

type Adapter = Awaited<ReturnType<typeof getAdapter>>
type Where = Parameters<Adapter['deleteMany']>[0]['where'][number]

/**
 * Stands between the package and its tables, so that a session's token is stored only as its hash: whoever reads the table can
 * be nobody's browser. The package gets the plain token back only where it supplied it: in the row that it created, or as
 * the value that it searched for.
 * Rows that it found in another way have the hash in its place.
 */
export function withHashedTokens(adapter: Adapter): Adapter {
  return { ...hashing(adapter), transaction: (work) => adapter.transaction((tx) => work(hashing(tx))) }
}

type Methods = Omit<Adapter, 'transaction'>

function hashing<T extends Methods>(adapter: T): T {
  const asked = <Request extends { model: string; where?: Where[] | undefined }>(request: Request): Request =>
    request.model === 'session' && request.where !== undefined
      ? { ...request, where: request.where.map(hashedWhere) }
      : request
  const methods: Pick<Methods, 'findOne' | 'findMany' | 'count' | 'update' | 'updateMany' | 'delete' | 'deleteMany'> = {
    findOne: async (request) => revealed(await adapter.findOne(asked(request)), request),
    findMany: (request) => adapter.findMany(asked(request)),
    count: (request) => adapter.count(asked(request)),
    update: async (request) => revealed(await adapter.update(asked(request)), request),
    updateMany: (request) => adapter.updateMany(asked(request)),
    delete: (request) => adapter.delete(asked(request)),
    deleteMany: (request) => adapter.deleteMany(asked(request)),
  }
  const create: Methods['create'] = async (request) => {
    if (request.model !== 'session') return adapter.create(request)
    const { token } = request.data as { token?: unknown }
    if (typeof token !== 'string') throw new Error('a session was to be made without a token')
    const made = await adapter.create({ ...request, data: { ...request.data, token: hashToken(token) } })
    return { ...(made as object), token } as never
  }
  return { ...adapter, ...methods, create }
}

function hashedWhere(where: Where): Where {
  const { field, value } = where
  if (field !== 'token') return where
  if (Array.isArray(value)) return { ...where, value: value.map((each) => hashToken(String(each))) }
  return typeof value === 'string' ? { ...where, value: hashToken(value) } : where
}

/** Returns a row that was found by its token with the token in it. */
function revealed<Row>(row: Row, { model, where }: { model: string; where: Where[] }): Row {
  const token = where.find(({ field }) => field === 'token')?.value
  if (model !== 'session' || row === null || typeof token !== 'string') return row
  return { ...row, token }
}
