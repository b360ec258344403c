import { broadcastJson } from '@mtl/comm/internal';
import { GptLanguageModel, type GptStage, type StageBatch } from '@mtl/models';
import { endAtSentence } from '../samples/end-at-sentence.js';
import type { ModelSample } from '../samples/model-sample.js';
import { sampleContinuation } from '../samples/sample-continuation.js';
import { type ConversationPrompt, sampleConversation } from '../samples/sample-conversation.js';
import { samplePrompt } from '../samples/sample-prompt.js';
import { splitContinuation } from '../samples/split-continuation.js';
import type { ShowOptions } from './model-recipe.js';

/** New tokens at the end of a run, and of a brief sample. */
const mostTokens = 120;
const mostTokensOfBrief = 48;

type GptShowOptions = ShowOptions<StageBatch, GptStage>;

/** What is gone on with; `text` is that of a conversation so far. */
type Prompt = Pick<ConversationPrompt, 'tokens'> & Partial<ConversationPrompt>;

/**
 * What a GPT goes on with, for a first look at what it has learnt: a text, or the answer to the first
 * messages of a conversation. Undefined where there is nothing to go on with.
 */
export async function gptSample(options: GptShowOptions): Promise<ModelSample | undefined> {
  const { configuration, part, tokenizer, pipelineGroup, isBrief } = options;
  // ids alone are nothing to read
  if (configuration.data.tokenizer?.type === 'NullTokenizer') return undefined;
  const { stages, placement, pipeline } = part;
  // stages in the middle read no data
  const own = pipeline.isFirst ? await promptOf(options) : undefined;
  const prompt =
    pipelineGroup === undefined ? own : broadcastJson(pipelineGroup, own, { root: placement[0]! });
  if (prompt === undefined) return undefined;
  const { tokens, stopTokens, text } = prompt;
  const whole = pipelineGroup === undefined ? stages.get(0)! : { stages, placement, group: pipelineGroup };
  const model = new GptLanguageModel(whole);
  // the start of a conversation may fill the context
  if (tokens.length >= model.maximumContext) return undefined;
  const maxNewTokens = isBrief ? mostTokensOfBrief : mostTokens;
  const sampling = { model, tokenizer, prompt: tokens, stopTokens, maxNewTokens, seed: 1 };
  const answer = await sampleContinuation(sampling);
  const shown = (from: readonly number[]): string => {
    const whole = tokenizer.decode([...from, ...answer.tokens]).trimStart();
    return answer.isEnded ? whole : endAtSentence(whole);
  };
  if (text !== undefined) {
    const label = 'A conversation';
    const completion = tokenizer.decode(answer.tokens);
    return { label, text: `${label}:\n${text}\nassistant: ${shown([])}`, prompt: text, completion };
  }
  const label = 'A sample';
  const split = splitContinuation(tokenizer, { prompt: tokens, continuation: answer.tokens });
  return { label, text: `${label}:\n${shown(tokens)}`, ...split };
}

async function promptOf({ configuration, tokenizer, datasets }: GptShowOptions): Promise<Prompt | undefined> {
  const { conversations } = configuration.data;
  if (conversations !== undefined) {
    const { trainData, validationData } = conversations;
    return await sampleConversation(validationData[0] ?? trainData[0]!, tokenizer);
  }
  const tokens = samplePrompt({ dataset: datasets.valid ?? datasets.train, tokenizer });
  return tokens && { tokens };
}
