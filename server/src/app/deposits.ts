import type { FixedSettings } from '../catalog/settings.ts'
import type { DepositsOptions } from '../payments/deposits/open.ts'
import type { Room } from './room.ts'

/** Opens the part for stablecoin deposits, whose code is loaded only where deposits are on. */
export async function openDepositsPart(
  infrastructure: Omit<DepositsOptions, 'settings'>,
  { deposits: settings }: Pick<FixedSettings, 'deposits'>,
): Promise<Room> {
  if (settings === null) return {}
  const { openDeposits } = await import('../payments/deposits/open.ts')
  return openDeposits({ ...infrastructure, settings })
}
