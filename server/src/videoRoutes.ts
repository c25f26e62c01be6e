/** The routes of videos. Part of `routes.ts`. */

import { z } from 'zod'
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

/** Beneath /v1. */
export function videoRoutes({ videos, openRequests }: VideoRouteDependencies): Route[] {
  const write = { permission: 'serverless:write' } as const
  const job = { 'application/json': videoJob }
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
        responses: { 200: { description: 'The job.', content: job } },
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
        requestParams: { path, query: z.object({ variant: z.enum(['video']).optional() }) },
        responses: {
          200: { description: 'The file.', content: { 'video/mp4': z.string().meta({ format: 'binary' }) } },
          206: {
            description: 'The part in the Range.',
            content: { 'video/mp4': z.string().meta({ format: 'binary' }) },
          },
          304: { description: 'Unchanged since the ETag in If-None-Match.' },
        },
        refusals: [404, 410, 416],
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
