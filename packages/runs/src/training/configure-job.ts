import { broadcastJson } from '@mtl/comm';
import { type ParsedFlags, type PretrainingConfiguration, validateConfiguration } from '@mtl/configuration';
import { withLoadedFlags } from '@mtl/configuration/internal';
import { type OpenedConversations, openConversations } from '../parts/conversations/open-conversations.js';
import { loadModelBlocks } from '../parts/models/load-model-blocks.js';
import { type JoinedProcesses, joinProcesses } from '../parts/ranks/join-processes.js';
import { refuseOtherRuns } from '../save-directory.js';
import { withHubModels } from '../saved/hub/with-hub-models.js';
import { readLoadedFlags } from '../saved/read-loaded-flags.js';
import { trackingOfRun } from './tracking-of-run.js';

/** Joins the processes of the job that the environment describes, with the backend that the flags request. */
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
 * Returns the flags, completed by the flags of the model in --load or --load-hf. Models on the Hub are
 * downloaded first. The first rank reads the flags for all ranks. Blocks in --model-blocks are registered.
 *
 * @param onMessage called on the first rank with messages about downloads
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

/** A job's checked training run, before anything is built. */
export interface ConfiguredJob {
  readonly configuration: PretrainingConfiguration;
  /** The run's conversations, if it is trained on conversations. */
  readonly conversations: OpenedConversations | undefined;
}

/**
 * Checks a job's flags together with the flags of the loaded model. Also reads the job's conversations,
 * because --epochs needs their count.
 *
 * @throws ConfigurationError, DataError and CheckpointError for errors that would otherwise occur later
 */
export async function configureJob(
  flags: ParsedFlags,
  { world, job }: JoinedProcesses,
): Promise<ConfiguredJob> {
  const { load, finetune, save, 'train-data': trainData } = flags.values;
  // the directory is checked first, because tokenizing conversations may take minutes
  if (trainData !== undefined && save !== undefined) await refuseOtherRuns({ save, load, finetune }, job);
  const conversations = await openConversations(flags);
  const configuration = validateConfiguration(flags, {
    worldSize: world?.size ?? 1,
    conversations: conversations?.samples,
  });
  if (isFirst(world)) trackingOfRun(configuration, process.env); // refused before anything is built
  return { configuration, conversations };
}

/** Returns true if this rank reads, reports and writes for all ranks. */
export const isFirst = (world: JoinedProcesses['world']): boolean => world === undefined || world.rank === 0;
