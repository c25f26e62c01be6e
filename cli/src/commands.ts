import { balanceCommand } from './account/balance.ts'
import { createApiKeyCommand, listApiKeysCommand, revokeApiKeyCommand, rotateApiKeyCommand } from './account/keys.ts'
import { setLimitsCommand, showLimitsCommand } from './account/limits.ts'
import { loginCommand } from './account/login.ts'
import { logoutCommand } from './account/logout.ts'
import { topUpCommand } from './account/topUp.ts'
import { usageCommand } from './account/usage.ts'
import { whoAmICommand } from './account/whoami.ts'
import { chatCommand } from './chat/commands.ts'
import type { CliCommand } from './command.ts'
import { completeCommand, completionCommand } from './completion.ts'
import { embedCommand } from './embeddings.ts'
import { imageCommand } from './images.ts'
import {
  createInstanceCommand,
  deleteInstanceCommand,
  listInstancesCommand,
  listOfferingsCommand,
  openInstanceCommand,
  showInstanceCommand,
} from './instances/commands.ts'
import { modelsCommand } from './models.ts'
import { preflightCommand } from './preflight.ts'
import {
  cancelVideoCommand,
  createVideoCommand,
  downloadVideoCommand,
  listVideosCommand,
  showVideoCommand,
  waitForVideoCommand,
} from './videos/commands.ts'
import {
  createWebhookCommand,
  deleteWebhookCommand,
  listDeliveriesCommand,
  listWebhooksCommand,
  redeliverCommand,
  testWebhookCommand,
} from './webhooks/commands.ts'
import { listenCommand } from './webhooks/listen.ts'

/** Every command, in the order of the help. */
export const CLI_COMMANDS: readonly CliCommand[] = [
  loginCommand,
  logoutCommand,
  whoAmICommand,
  chatCommand,
  imageCommand,
  embedCommand,
  createVideoCommand,
  listVideosCommand,
  showVideoCommand,
  waitForVideoCommand,
  cancelVideoCommand,
  downloadVideoCommand,
  listOfferingsCommand,
  createInstanceCommand,
  listInstancesCommand,
  showInstanceCommand,
  openInstanceCommand,
  deleteInstanceCommand,
  modelsCommand,
  preflightCommand,
  usageCommand,
  balanceCommand,
  showLimitsCommand,
  setLimitsCommand,
  topUpCommand,
  listApiKeysCommand,
  createApiKeyCommand,
  rotateApiKeyCommand,
  revokeApiKeyCommand,
  createWebhookCommand,
  listWebhooksCommand,
  deleteWebhookCommand,
  listDeliveriesCommand,
  redeliverCommand,
  testWebhookCommand,
  listenCommand,
  completionCommand(),
  completeCommand(() => CLI_COMMANDS),
]
