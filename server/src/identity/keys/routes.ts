import { z } from 'zod'
import { apiKey, fullKeyOrSession } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import {
  apiKeyEntry,
  apiKeyPage,
  deleteKey,
  deleteOwnKey,
  type KeyHttpDependencies,
  keyChange,
  keyRequest,
  keyRotation,
  keysQuery,
  newApiKey,
  type OwnKeyDependencies,
  ownApiKey,
  patchKey,
  postKey,
  postRotation,
  showKeys,
  showOwnKey,
} from './http.ts'

const OF_KEY = { path: z.object({ id: z.string().meta({ format: 'uuid' }) }) }
const WHO =
  "A member sees and changes its own keys, an admin all. Needs a session, or an admin's key with the scope `full_access`."

/** Beneath /manage/v1. */
export function keyRoutes(dependencies: KeyHttpDependencies): Route[] {
  return [...keyListRoutes(dependencies), ...keyChangeRoutes(dependencies), ownKeyDeletion(dependencies)]
}

/** Beneath /manage/v1, where nobody signs in too. */
export function ownKeyRoute(dependencies: OwnKeyDependencies): Route {
  return {
    base: MANAGE,
    method: 'GET',
    path: '/key',
    access: apiKey('any'),
    handle: showOwnKey(dependencies),
    describe: {
      operationId: 'getOwnKey',
      summary: 'Read the API key that this request is sent with, without the key itself',
      description:
        'Any key may read itself: its organization, the member that it belongs to, its scopes and its expiry.',
      responses: { 200: { description: 'The key.', content: { 'application/json': ownApiKey } } },
    },
  }
}

function ownKeyDeletion(dependencies: KeyHttpDependencies): Route {
  return {
    base: MANAGE,
    method: 'DELETE',
    path: '/key',
    access: apiKey('any'),
    prepare: deleteOwnKey(dependencies),
    describe: {
      operationId: 'revokeOwnKey',
      summary: 'Revoke the API key that this request is sent with',
      description: 'Calls in progress with it end too. Any key may revoke itself.',
      responses: { 204: { description: 'It is revoked.' } },
    },
  }
}

const shared = { base: MANAGE, access: fullKeyOrSession('member') } as const

function keyListRoutes(dependencies: KeyHttpDependencies): Route[] {
  return [
    {
      ...shared,
      method: 'GET',
      path: '/keys',
      query: ['limit', 'cursor'],
      handle: showKeys(dependencies),
      describe: {
        operationId: 'listKeys',
        summary: 'List API keys, the newest first, without the keys themselves',
        description: WHO,
        requestParams: { query: keysQuery },
        responses: { 200: { description: 'A page.', content: { 'application/json': apiKeyPage } } },
      },
    },
    {
      ...shared,
      method: 'POST',
      path: '/keys',
      body: 'json',
      prepare: postKey(dependencies),
      describe: {
        operationId: 'createKey',
        summary: 'Make an API key',
        description: WHO,
        requestBody: keyRequest,
        responses: { 201: { description: 'The key.', content: { 'application/json': newApiKey } } },
      },
    },
  ]
}

function keyChangeRoutes(dependencies: KeyHttpDependencies): Route[] {
  return [
    {
      ...shared,
      method: 'PATCH',
      path: '/keys/{id}',
      body: 'json',
      prepare: patchKey(dependencies),
      describe: {
        operationId: 'changeKey',
        summary: 'Change the name or the expiry of an API key',
        description: WHO,
        requestParams: OF_KEY,
        requestBody: keyChange,
        responses: { 200: { description: 'The key.', content: { 'application/json': apiKeyEntry } } },
        refusals: [404],
      },
    },
    {
      ...shared,
      method: 'POST',
      path: '/keys/{id}/rotate',
      body: 'json',
      isBodyOptional: true,
      prepare: postRotation(dependencies),
      describe: {
        operationId: 'rotateKey',
        summary: 'Make a new API key in place of another',
        description: `The new key has the rights, the owner, the name and the expiry of the old one, which still works for a while. If the answer is lost, rotate the old key again, then revoke the key that nobody has. ${WHO}`,
        requestParams: OF_KEY,
        requestBody: keyRotation,
        responses: { 201: { description: 'The new key.', content: { 'application/json': newApiKey } } },
        refusals: [404],
      },
    },
    {
      ...shared,
      method: 'DELETE',
      path: '/keys/{id}',
      prepare: deleteKey(dependencies),
      describe: {
        operationId: 'revokeKey',
        summary: 'Revoke an API key',
        description: `Calls that are under way with this key end too. ${WHO}`,
        requestParams: OF_KEY,
        responses: { 204: { description: 'It is revoked.' } },
        refusals: [404],
      },
    },
  ]
}
