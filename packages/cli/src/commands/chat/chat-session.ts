import type { Tokenizer } from '@mtl/data';
import { type ChatMessage, type ChatTemplate, chatTokens } from '@mtl/data/conversations';
import { DataError } from '@mtl/errors';
import { type GenerateOptions, generate, type Sampling, TextStream } from '@mtl/inference';

export interface ChatSessionOptions {
  readonly model: GenerateOptions['model'];
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate;
  /** Tokens that end an answer; they are not shown. */
  readonly stopTokens: readonly number[];
  /** The message of the role `system` that begins the conversation. */
  readonly system?: string | undefined;
  readonly sampling: Sampling;
  readonly maxNewTokens: number;
  readonly seed: number;
  /** Gets what had to be dropped. */
  readonly onNotice: (text: string) => void;
}

/** A conversation with a model, whose context bounds what of it the model still sees. */
export class ChatSession {
  readonly #options: ChatSessionOptions;
  /** What has been said and is still seen. */
  readonly #messages: ChatMessage[];
  #numTurns = 0;

  constructor(options: ChatSessionOptions) {
    this.#options = options;
    this.#messages = options.system === undefined ? [] : [{ role: 'system', content: options.system }];
  }

  /**
   * Says something to the model, and yields its answer in parts. An answer that is aborted is kept as far as
   * it came.
   *
   * @throws DataError MTL_CONTEXT for a message that alone fills the context, MTL_CHAT_TEMPLATE; neither is
   *   kept. The signal's reason when aborted
   */
  async *say(content: string, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
    const { model, tokenizer, stopTokens, sampling, maxNewTokens, seed } = this.#options;
    const prompt = this.#promptWith({ role: 'user', content });
    const stream = new TextStream((tokens) => tokenizer.decode(tokens));
    let answer = '';
    try {
      const tokens = generate({
        model,
        sampling,
        seed,
        stopTokens,
        signal,
        prompts: [prompt],
        maxNewTokens,
        sampleNumbers: [this.#numTurns],
      });
      for await (const { token } of tokens) {
        const part = stopTokens.includes(token) ? '' : stream.push(token);
        answer += part;
        if (part !== '') yield part;
      }
      const rest = stream.end();
      answer += rest;
      if (rest !== '') yield rest;
    } finally {
      this.#numTurns += 1;
      this.#messages.push({ role: 'assistant', content: answer });
    }
  }

  /** The tokens of the conversation with a message more; the oldest turns give way where it is too long. */
  #promptWith(message: ChatMessage): readonly number[] {
    const { model, maxNewTokens, onNotice } = this.#options;
    const kept = [...this.#messages, message];
    const first = kept[0]!.role === 'system' ? 1 : 0;
    // an answer has some room
    const most = model.maximumContext - Math.min(maxNewTokens, Math.ceil(model.maximumContext / 4));
    let prompt = this.#tokensOf(kept);
    let numDropped = 0;
    while (prompt.length > most) {
      // a question goes with its answer
      const next = kept.findIndex(({ role }, index) => index > first && role === 'user');
      if (next < 0) {
        throw new DataError('MTL_CONTEXT', `the message and what precedes it have ${prompt.length} tokens`, {
          expected: `at most ${most}, of ${model.maximumContext} that the model sees`,
          remedy: 'say it in fewer words',
        });
      }
      numDropped += kept.splice(first, next - first).length;
      prompt = this.#tokensOf(kept);
    }
    if (numDropped > 0)
      onNotice(`the first ${numDropped} messages no longer fit into ${model.maximumContext} tokens: dropped`);
    this.#messages.splice(0, this.#messages.length, ...kept);
    return prompt;
  }

  #tokensOf(messages: readonly ChatMessage[]): readonly number[] {
    const { template, tokenizer } = this.#options;
    const { text } = template.render({ messages, addsGenerationPrompt: true, where: 'the conversation' });
    return Array.from(chatTokens(tokenizer, text));
  }
}
