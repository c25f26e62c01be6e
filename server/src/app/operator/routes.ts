/** The routes for operators, beneath /manage/v1/operator. Nobody else is told that they are there. */

import { z } from 'zod'
import { operatorSession } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import {
  creditGrant,
  deleteFreeze,
  freezeRequest,
  frozenOrganization,
  grantedCredit,
  postFreeze,
  postGrant,
} from './changes.ts'
import type { OperatorDependencies } from './dependencies.ts'
import {
  newOrganization,
  operatedOrganization,
  operatedOrganizationPage,
  operatedOrganizationsQuery,
  organizationDetails,
  postNewOrganization,
  showOrganizationDetails,
  showOrganizations,
} from './organizations.ts'
import {
  deadChargePage,
  deadChargesQuery,
  ledgerCheckRow,
  queueFigures,
  showDeadCharges,
  showLedgerCheck,
  showQueues,
  showTargets,
  targetList,
} from './state.ts'

const shared = { base: MANAGE, access: operatorSession } as const
const LISTED = ['limit', 'cursor'] as const
const OPERATORS = 'For operators who are signed in: everybody else is answered 404.'
const id = z.string().meta({ format: 'uuid' })
const json = (schema: z.ZodType) => ({ 'application/json': schema })

export function operatorRoutes(dependencies: OperatorDependencies): Route[] {
  return [...organizationRoutes(dependencies), ...changeRoutes(dependencies), ...stateRoutes(dependencies)]
}

function organizationRoutes(dependencies: OperatorDependencies): Route[] {
  return [
    {
      ...shared,
      method: 'GET',
      path: '/operator/organizations',
      query: LISTED,
      handle: showOrganizations(dependencies),
      describe: {
        operationId: 'listOrganizations',
        summary: 'List organizations, the newest first',
        description: OPERATORS,
        requestParams: { query: operatedOrganizationsQuery },
        responses: { 200: { description: 'A page.', content: json(operatedOrganizationPage) } },
      },
    },
    {
      ...shared,
      method: 'POST',
      path: '/operator/organizations',
      body: 'json',
      prepare: postNewOrganization(dependencies),
      describe: {
        operationId: 'createOrganization',
        summary: 'Make an organization, with an empty account',
        description: OPERATORS,
        requestBody: newOrganization,
        responses: { 201: { description: 'The organization.', content: json(operatedOrganization) } },
      },
    },
    {
      ...shared,
      method: 'GET',
      path: '/operator/organizations/{id}',
      handle: showOrganizationDetails(dependencies),
      describe: {
        operationId: 'getOrganizationDetails',
        summary: "Read an organization's balance, limits, spend, plan and freezes",
        description: OPERATORS,
        requestParams: { path: z.object({ id }) },
        responses: { 200: { description: 'The organization.', content: json(organizationDetails) } },
      },
    },
  ]
}

function changeRoutes(dependencies: OperatorDependencies): Route[] {
  return [
    {
      ...shared,
      method: 'POST',
      path: '/operator/organizations/{id}/credits',
      body: 'json',
      prepare: postGrant(dependencies),
      describe: {
        operationId: 'grantCredit',
        summary: "Add credit to an organization's balance",
        description: OPERATORS,
        requestParams: { path: z.object({ id }) },
        requestBody: creditGrant,
        responses: { 201: { description: 'The credit.', content: json(grantedCredit) } },
      },
    },
    {
      ...shared,
      method: 'POST',
      path: '/operator/organizations/{id}/freezes',
      body: 'json',
      prepare: postFreeze(dependencies),
      describe: {
        operationId: 'freezeOrganization',
        summary: 'Let an organization pay no more',
        description: `No top-ups and no checkout; calls go on while there is credit. ${OPERATORS}`,
        requestParams: { path: z.object({ id }) },
        requestBody: freezeRequest,
        responses: { 201: { description: 'All freezes of it.', content: json(frozenOrganization) } },
      },
    },
    {
      ...shared,
      method: 'DELETE',
      path: '/operator/organizations/{id}/freezes/{reason}',
      prepare: deleteFreeze(dependencies),
      describe: {
        operationId: 'unfreezeOrganization',
        summary: 'Take a reason away for which an organization is frozen',
        description: `Other reasons stay. ${OPERATORS}`,
        requestParams: { path: z.object({ id, reason: z.string() }) },
        responses: { 200: { description: 'The freezes that are left.', content: json(frozenOrganization) } },
      },
    },
  ]
}

function stateRoutes(dependencies: OperatorDependencies): Route[] {
  return [
    {
      ...shared,
      method: 'GET',
      path: '/operator/targets',
      handle: showTargets(dependencies),
      describe: {
        operationId: 'listTargets',
        summary: 'Read the health of each target',
        description: OPERATORS,
        responses: { 200: { description: 'The targets.', content: json(targetList) } },
      },
    },
    {
      ...shared,
      method: 'GET',
      path: '/operator/queues',
      handle: showQueues(dependencies),
      describe: {
        operationId: 'getQueues',
        summary: 'Read how much work waits',
        description: OPERATORS,
        responses: { 200: { description: 'The queues.', content: json(queueFigures) } },
      },
    },
    {
      ...shared,
      method: 'GET',
      path: '/operator/dead-charges',
      query: LISTED,
      handle: showDeadCharges(dependencies),
      describe: {
        operationId: 'listDeadCharges',
        summary: 'List charges that the database refused',
        description: OPERATORS,
        requestParams: { query: deadChargesQuery },
        responses: { 200: { description: 'A page.', content: json(deadChargePage) } },
      },
    },
    {
      ...shared,
      method: 'GET',
      path: '/operator/ledger-check',
      handle: showLedgerCheck(dependencies),
      describe: {
        operationId: 'checkLedger',
        summary: 'Recompute every balance, charge, rollup, meter and statement',
        description: `Rows are sent as they are found, for minutes. Only one check runs at a time. ${OPERATORS}`,
        responses: { 200: { description: 'Rows.', content: { 'application/jsonl': ledgerCheckRow } } },
      },
    },
  ]
}
