import { createAdjustmentCommand } from './adjustments.ts'
import { listChargesCommand } from './charges.ts'
import type { Command } from './command.ts'
import { checkConfigCommand } from './config.ts'
import { grantCreditsCommand, listCreditsCommand } from './credits.ts'
import { rotateDataKeyCommand } from './dataKeys.ts'
import { deleteOrganizationCommand } from './deleteOrganization.ts'
import {
  listDepositsCommand,
  rejectDepositCommand,
  releaseDepositCommand,
  showDepositCommand,
  sweepPlanCommand,
} from './deposits.ts'
import { erasePersonCommand } from './erasePerson.ts'
import { freezeOrganizationCommand, unfreezeOrganizationCommand } from './freezes.ts'
import { importDepositAddressesCommand } from './importDeposits.ts'
import { installInstancesCommand } from './installInstances.ts'
import { createKeyCommand, listKeysCommand, revokeKeyCommand } from './keys.ts'
import { verifyLedgerCommand } from './ledger.ts'
import { migrateCommand } from './migrate.ts'
import { listModelsCommand } from './models.ts'
import { addOperatorCommand, listOperatorsCommand, removeOperatorCommand } from './operators.ts'
import { createOrganizationCommand, listOrganizationsCommand, updateOrganizationCommand } from './organizations.ts'
import { listPaymentsCommand } from './payments.ts'
import { resetLinkCommand, setUpLinkCommand } from './people.ts'
import { pullModelCommand } from './pullModel.ts'
import { reconcilePaymentsCommand } from './reconcilePayments.ts'
import { refundPaymentCommand } from './refundPayment.ts'
import { createRefundCommand } from './refunds.ts'
import { rescanDepositsCommand } from './rescanDeposits.ts'
import { serveCommand } from './serveCommand.ts'
import { showOrganizationCommand } from './showOrganization.ts'
import { simulatePaymentCommand } from './simulatePayment.ts'
import { setSubscriptionCommand, showSubscriptionCommand } from './subscriptions.ts'
import { showUsageCommand } from './usage.ts'

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  serveCommand,
  migrateCommand,
  createOrganizationCommand,
  updateOrganizationCommand,
  showOrganizationCommand,
  listOrganizationsCommand,
  freezeOrganizationCommand,
  unfreezeOrganizationCommand,
  deleteOrganizationCommand,
  createKeyCommand,
  listKeysCommand,
  revokeKeyCommand,
  setUpLinkCommand,
  resetLinkCommand,
  erasePersonCommand,
  listOperatorsCommand,
  addOperatorCommand,
  removeOperatorCommand,
  grantCreditsCommand,
  listCreditsCommand,
  listChargesCommand,
  showUsageCommand,
  createRefundCommand,
  createAdjustmentCommand,
  listPaymentsCommand,
  refundPaymentCommand,
  reconcilePaymentsCommand,
  simulatePaymentCommand,
  listDepositsCommand,
  showDepositCommand,
  releaseDepositCommand,
  rejectDepositCommand,
  sweepPlanCommand,
  importDepositAddressesCommand,
  rescanDepositsCommand,
  setSubscriptionCommand,
  showSubscriptionCommand,
  verifyLedgerCommand,
  rotateDataKeyCommand,
  checkConfigCommand,
  listModelsCommand,
  pullModelCommand,
  installInstancesCommand,
]
