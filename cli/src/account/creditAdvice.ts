import { callApi, ServerRefusal } from '../api.ts'
import type { CommandLine } from '../command.ts'
import type { System } from '../system.ts'
import type { OwnKey } from './ownKey.ts'

/**
 * Returns how credit is added, for a refusal because of the balance: the command for it, where the key may begin a payment and the
 * server takes payments. Null: another failure, or that is not so, or can't be told. Never throws.
 */
export async function creditAdvice(args: CommandLine, system: System, error: unknown): Promise<string | null> {
  if (!(error instanceof ServerRefusal) || error.status !== 402 || error.code !== 'insufficient_balance') return null
  const read = (path: string) => callApi(args, system, { method: 'GET', path })
  try {
    const { levels } = (await read('/manage/v1/key')) as OwnKey
    if (levels['billing'] !== 'write') return null
    await read('/manage/v1/payments?limit=1')
    return '"tollgate topup 20" adds $20 of credit.'
  } catch {
    return null
  }
}
