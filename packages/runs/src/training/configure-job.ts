import { broadcastJson } from '@mtl/comm/internal';
import { type ParsedFlags, type PretrainingConfiguration, validateConfiguration } from '@mtl/configuration';
import { withLoadedFlags } from '@mtl/configuration/internal';
import { type OpenedConversations, openConversations } from '../parts/conversations/open-conversations.js';
import { loadModelBlocks } from '../parts/models/load-model-blocks.js';
import { type JoinedProcesses, joinProcesses } from '../parts/ranks/join-processes.js';
import { refuseOtherRuns } from '../save-directory.js';
import { withHubModels } from '../saved/hub/with-hub-models.js';
import { readLoadedFlags } from '../saved/read-loaded-flags.js';
import { trackingOfRun } from './tracking-of-run.js';

/** Joins the processes that the environment describes, via the backend that the flags ask for. */
export async function joinJob(
  { values }: ParsedFlags,
  onMessage: (text: string) => void,
): Promise<JoinedProcesses> {
  return await joinProcesses({
    variables: process.env,
    timeoutMinutes: values['distributed-timeout-minutes'],
    device: values.device,
    allowTf32: values['allow-tf32'],
    backend: values['distributed-backend'],
    onMessage,
  });
}

/**
 * Returns the flags completed by --load or --load-hf, which the first rank reads for all ranks. Models of the
 * Hub are fetched first. The blocks that flags name are registered from now on.
 *
 * @param onMessage called on the first rank with what is fetched
 */
export async function withFlagsOfLoad(
  asked: ParsedFlags,
  { world }: Pick<JoinedProcesses, 'world'>,
  onMessage: (text: string) => void,
): Promise<ParsedFlags> {
  await loadModelBlocks(asked);
  const flags = await withHubModels(asked, { group: world?.group, onMessage });
  if (flags.values.load === undefined && flags.values['load-hf'] === undefined) return flags;
  const own = isFirst(world) ? await readLoadedFlags(flags) : undefined;
  return withLoadedFlags(flags, world === undefined ? own : broadcastJson(world.group, own));
}

/** The training run of a job's processes, before any part of it is built. */
export interface ConfiguredJob {
  readonly configuration: PretrainingConfiguration;
  /** The conversations of a run that learns from them. */
  readonly conversations: OpenedConversations | undefined;
}

/**
 * Checks the flags of a job, including the flags of the loaded model, and reads its conversations, whose
 * number determines the steps of --epochs.
 *
 * @throws ConfigurationError, DataError and CheckpointError for errors that would otherwise occur later
 */
export async function configureJob(
  flags: ParsedFlags,
  { world, job }: JoinedProcesses,
): Promise<ConfiguredJob> {
  const { load, finetune, save, 'train-data': trainData } = flags.values;
  // tokenizing conversations may take minutes
  if (trainData !== undefined && save !== undefined) await refuseOtherRuns({ save, load, finetune }, job);
  const conversations = await openConversations(flags);
  const configuration = validateConfiguration(flags, {
    worldSize: world?.size ?? 1,
    conversations: conversations?.samples,
  });
  if (isFirst(world)) trackingOfRun(configuration, process.env); // refused before anything is built
  return { configuration, conversations };
}

/** Tells if this rank reads, reports and writes for all ranks. */
export const isFirst = (world: JoinedProcesses['world']): boolean => world === undefined || world.rank === 0;
