/** The routes of videos. Part of `routes.ts`. */

import { z } from 'zod'
import { type DescribedHeaders, etagHeaders } from './edge/describedHeaders.ts'
import type { OpenRequests } from './edge/openRequests.ts'
import type { Route } from './edge/route.ts'
import { showContent } from './videos/content/http.ts'
import {
  cancelVideo,
  createVideos,
  ESTIMATE_HEADER,
  POSITION_HEADER,
  showVideo,
  showVideos,
  type VideoEndpoints,
} from './videos/http.ts'
import { VIDEOS_PARAMETERS, videoCreateRequest, videoJob, videoList, videosQuery } from './videos/schemas.ts'

export interface VideoRouteDependencies {
  readonly openRequests: OpenRequests
  readonly videos: VideoEndpoints
}

const READ = { permission: 'serverless:read' } as const

const outlookHeaders: DescribedHeaders = {
  [POSITION_HEADER]: {
    description: 'Of a job that waits: its place among those of your organization for the model; 1000: that or more.',
    schema: { type: 'integer', minimum: 1 },
  },
  [ESTIMATE_HEADER]: {
    description: 'Of a job that is not over: `<soonest>-<latest>`, seconds within which it is likely to be complete.',
    schema: { type: 'string', pattern: '^\\d+-\\d+$' },
  },
}

const fileHeaders: DescribedHeaders = {
  ...etagHeaders,
  'Last-Modified': { description: 'When it was completed.', required: true, schema: { type: 'string' } },
  'Accept-Ranges': {
    description: 'That parts of it may be asked for.',
    required: true,
    schema: { type: 'string', const: 'bytes' },
  },
}

const rangeHeader: DescribedHeaders = {
  'Content-Range': { description: 'Which bytes, of how many.', required: true, schema: { type: 'string' } },
}

const fileConditions = z.object({
  Range: z.string().optional().meta({ description: 'One range of bytes; several are answered with the whole file.' }),
  'If-Range': z.string().optional().meta({ description: 'The range counts only for the file of this ETag or date.' }),
  'If-None-Match': z.string().optional().meta({ description: 'ETags of what the client has already.' }),
})

/** Beneath /v1. */
export function videoRoutes({ videos, openRequests }: VideoRouteDependencies): Route[] {
  const write = { permission: 'serverless:write' } as const
  const job = { 'application/json': videoJob }
  const file = { 'video/mp4': z.string().meta({ format: 'binary' }) }
  const path = z.object({ id: z.string() })
  return [
    {
      method: 'POST',
      path: '/videos',
      needs: { ...write, body: 'form' },
      prepare: createVideos(videos, openRequests),
      describe: {
        operationId: 'createVideo',
        summary: 'Have a video made',
        description:
          'Answers at once; the job is worked on in the background. The body may be a multipart form as well, without ' +
          'files. What all of the seconds can cost is set aside, and the seconds that were made are charged at completion; ' +
          'a job that fails, is cancelled or expires costs nothing.',
        requestBody: videoCreateRequest,
        responses: { 202: { description: 'The job, queued.', content: job } },
        refusals: [402, 404],
      },
    },
    {
      method: 'GET',
      path: '/videos',
      needs: { ...READ, query: VIDEOS_PARAMETERS },
      handle: showVideos(videos),
      describe: {
        operationId: 'listVideos',
        summary: 'List video jobs',
        requestParams: { query: videosQuery },
        responses: { 200: { description: 'A page of jobs.', content: { 'application/json': videoList } } },
        refusals: [422],
      },
    },
    {
      method: 'GET',
      path: '/videos/{id}',
      needs: READ,
      handle: showVideo(videos),
      describe: {
        operationId: 'retrieveVideo',
        summary: 'Retrieve a video job',
        description:
          `While it waits, \`${POSITION_HEADER}\` is its place among the jobs of your organization for the model (1000: ` +
          `that or more). Until it is over, \`${ESTIMATE_HEADER}\` is a range such as \`40-95\` within which it is likely ` +
          'to be complete, where jobs of the model have been completed before.',
        requestParams: { path },
        responses: { 200: { description: 'The job.', content: job, headers: outlookHeaders } },
        refusals: [404],
      },
    },
    {
      method: 'GET',
      path: '/videos/{id}/content',
      needs: { ...READ, query: ['variant'], isLarge: true },
      handle: showContent(videos),
      describe: {
        operationId: 'downloadVideo',
        summary: 'Download a video',
        description: 'For 24 hours after completion. Takes `Range`, `If-Range` and `If-None-Match`.',
        requestParams: { path, query: z.object({ variant: z.enum(['video']).optional() }), header: fileConditions },
        responses: {
          200: { description: 'The file.', content: file, headers: fileHeaders },
          206: { description: 'The part in the Range.', content: file, headers: { ...fileHeaders, ...rangeHeader } },
          304: { description: 'Unchanged since the ETag in If-None-Match.', headers: fileHeaders },
        },
        refusals: [404, 410, 416, 422],
        refusalHeaders: { 416: { ...fileHeaders, ...rangeHeader } },
      },
    },
    {
      method: 'POST',
      path: '/videos/{id}/cancel',
      needs: write,
      prepare: cancelVideo(videos),
      describe: {
        operationId: 'cancelVideo',
        summary: 'Cancel a video job',
        description: 'A job that is over, or whose video is there already, is answered as it is.',
        requestParams: { path },
        responses: { 200: { description: 'The job as it is now.', content: job } },
        refusals: [404],
      },
    },
  ]
}
