/** The routes of accounts beneath /manage/v1. */

import { z } from 'zod'
import { fullKeyOrSession, session } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import {
  deleteInvitation,
  type InvitationHttpDependencies,
  invitationEntry,
  invitationPage,
  invitationRequest,
  invitationsQuery,
  postInvitation,
  showInvitations,
} from './invitations/http.ts'
import {
  changedMember,
  deleteMember,
  type MemberHttpDependencies,
  memberChange,
  memberPage,
  membersQuery,
  patchMember,
  showMembers,
} from './members/http.ts'
import {
  currentSession,
  deleteOwnSession,
  patchSession,
  type SessionHttpDependencies,
  sessionChange,
  sessionPage,
  sessionsQuery,
  showSession,
  showSessions,
} from './sessions/http.ts'

const BY_ID = { path: z.object({ id: z.string().meta({ format: 'uuid' }) }) }
const LISTED = ['limit', 'cursor'] as const
const json = (schema: z.ZodType) => ({ 'application/json': schema })
const ADMINS = "Needs an admin, or an admin's key with the scope `full_access`."
const NO_KEYS = 'Needs a session: no API key reads or ends sessions.'

export function sessionRoutes(dependencies: SessionHttpDependencies): Route[] {
  const shared = { base: MANAGE, access: session('member') } as const
  return [
    {
      ...shared,
      method: 'GET',
      path: '/session',
      handle: showSession(dependencies),
      describe: {
        operationId: 'getSession',
        summary: 'Read who is signed in, and for which organization',
        description: NO_KEYS,
        responses: { 200: { description: 'The session.', content: json(currentSession) } },
      },
    },
    {
      ...shared,
      method: 'PATCH',
      path: '/session',
      body: 'json',
      prepare: patchSession(dependencies),
      describe: {
        operationId: 'changeSession',
        summary: 'Act for another organization',
        description: NO_KEYS,
        requestBody: sessionChange,
        responses: { 200: { description: 'The session.', content: json(currentSession) } },
        refusals: [404],
      },
    },
    {
      ...shared,
      method: 'GET',
      path: '/sessions',
      query: LISTED,
      handle: showSessions(dependencies),
      describe: {
        operationId: 'listSessions',
        summary: 'List your own sessions, the newest first',
        description: NO_KEYS,
        requestParams: { query: sessionsQuery },
        responses: { 200: { description: 'A page.', content: json(sessionPage) } },
      },
    },
    {
      ...shared,
      method: 'DELETE',
      path: '/sessions/{id}',
      prepare: deleteOwnSession(dependencies),
      describe: {
        operationId: 'endSession',
        summary: 'End a session of your own',
        description: NO_KEYS,
        requestParams: BY_ID,
        responses: { 204: { description: 'It has ended.' } },
        refusals: [404],
      },
    },
  ]
}

export function memberRoutes(dependencies: MemberHttpDependencies): Route[] {
  return [
    {
      base: MANAGE,
      method: 'GET',
      path: '/members',
      access: fullKeyOrSession('member'),
      query: LISTED,
      handle: showMembers(dependencies),
      describe: {
        operationId: 'listMembers',
        summary: 'List the members of the organization',
        requestParams: { query: membersQuery },
        responses: { 200: { description: 'A page, the oldest first.', content: json(memberPage) } },
      },
    },
    {
      base: MANAGE,
      method: 'PATCH',
      path: '/members/{id}',
      access: fullKeyOrSession('admin'),
      body: 'json',
      prepare: patchMember(dependencies),
      describe: {
        operationId: 'changeMember',
        summary: 'Give a member another role',
        description: `${ADMINS} Only an owner makes owners, or changes them. The last owner stays one.`,
        requestParams: BY_ID,
        requestBody: memberChange,
        responses: { 200: { description: 'The member.', content: json(changedMember) } },
        refusals: [404],
      },
    },
    {
      base: MANAGE,
      method: 'DELETE',
      path: '/members/{id}',
      access: fullKeyOrSession('member'),
      prepare: deleteMember(dependencies),
      describe: {
        operationId: 'removeMember',
        summary: 'Remove a member, or leave',
        description: `${ADMINS} A member removes itself. The member's keys and sessions end.`,
        requestParams: BY_ID,
        responses: { 204: { description: 'The member is removed.' } },
        refusals: [404],
      },
    },
  ]
}

export function invitationRoutes(dependencies: InvitationHttpDependencies): Route[] {
  const shared = { base: MANAGE, access: fullKeyOrSession('admin') } as const
  return [
    {
      ...shared,
      method: 'GET',
      path: '/invitations',
      query: LISTED,
      handle: showInvitations(dependencies),
      describe: {
        operationId: 'listInvitations',
        summary: 'List invitations, the newest first',
        description: ADMINS,
        requestParams: { query: invitationsQuery },
        responses: { 200: { description: 'A page.', content: json(invitationPage) } },
      },
    },
    {
      ...shared,
      method: 'POST',
      path: '/invitations',
      body: 'json',
      prepare: postInvitation(dependencies),
      describe: {
        operationId: 'createInvitation',
        summary: 'Invite somebody by mail',
        description: `${ADMINS} The link in the mail works for 7 days, only for the person with this address. An older invitation to it is withdrawn.`,
        requestBody: invitationRequest,
        responses: { 201: { description: 'The invitation.', content: json(invitationEntry) } },
      },
    },
    {
      ...shared,
      method: 'DELETE',
      path: '/invitations/{id}',
      prepare: deleteInvitation(dependencies),
      describe: {
        operationId: 'withdrawInvitation',
        summary: 'Withdraw an open invitation',
        description: ADMINS,
        requestParams: BY_ID,
        responses: { 204: { description: 'It is withdrawn.' } },
        refusals: [404],
      },
    },
  ]
}
