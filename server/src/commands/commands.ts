import { createAdjustmentCommand } from './adjustments.ts'
import type { Command } from './command.ts'
import { checkConfigCommand } from './config.ts'
import { grantCreditsCommand } from './credits.ts'
import { createKeyCommand, listKeysCommand, revokeKeyCommand } from './keys.ts'
import { verifyLedgerCommand } from './ledger.ts'
import { listenCommand } from './listen.ts'
import { migrateCommand } from './migrate.ts'
import { listModelsCommand } from './models.ts'
import { createOrganizationCommand, listOrganizationsCommand, updateOrganizationCommand } from './organizations.ts'
import { pullModelCommand } from './pullModel.ts'
import { createRefundCommand } from './refunds.ts'
import { serveCommand } from './serveCommand.ts'
import { setSubscriptionCommand, showSubscriptionCommand } from './subscriptions.ts'
import { cancelVideoCommand, createVideoCommand, waitForVideoCommand } from './videos.ts'
import {
  createWebhookCommand,
  deleteWebhookCommand,
  listDeliveriesCommand,
  listWebhooksCommand,
  redeliverCommand,
  testWebhookCommand,
} from './webhooks.ts'

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  serveCommand,
  migrateCommand,
  createOrganizationCommand,
  updateOrganizationCommand,
  listOrganizationsCommand,
  createKeyCommand,
  listKeysCommand,
  revokeKeyCommand,
  grantCreditsCommand,
  createRefundCommand,
  createAdjustmentCommand,
  setSubscriptionCommand,
  showSubscriptionCommand,
  verifyLedgerCommand,
  checkConfigCommand,
  listModelsCommand,
  pullModelCommand,
  createVideoCommand,
  waitForVideoCommand,
  cancelVideoCommand,
  createWebhookCommand,
  listWebhooksCommand,
  deleteWebhookCommand,
  listDeliveriesCommand,
  redeliverCommand,
  testWebhookCommand,
  listenCommand,
]
