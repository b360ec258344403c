import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TokenizerOptions } from '@mtl/data';
import { readChatTemplate } from '@mtl/data/conversations';
import { ConfigurationError } from '@mtl/errors';
import { stopTokensOf } from '@mtl/run-parts';
import type { Command } from 'commander';
import { loadModelOfFlags, type ModelFlagValues, newModelCommand } from '../../command-line/model-flags.js';
import { countOption } from '../../command-line/option-values.js';
import { requiredTokenizer } from '../../command-line/required-tokenizer.js';
import { addSamplingFlags, type SamplingFlagValues, samplingOf } from '../../command-line/sampling-flags.js';
import { ChatSession } from './chat-session.js';
import { converse } from './converse.js';

type ChatFlags = ModelFlagValues &
  SamplingFlagValues & {
    readonly system?: string;
    readonly chatTemplate?: string;
    readonly maxNewTokens: number;
  };

const notes = `
A line is a message. Ctrl-C stops an answer; a second one, or the end of the input (Ctrl-D), ends the conversation. When
the conversation outgrows the model's context, its oldest turns are dropped, and a notice tells.

Examples:
  mtl chat runs/chat --system 'Answer in one sentence.'
  printf 'Hello\\nWho are you?\\n' | mtl chat SmolLM2-135M-Instruct --temperature 0`;

/** `mtl chat`: a conversation with a model in the terminal. */
export function chatCommand(): Command {
  const command = newModelCommand('chat', 'Holds a conversation with a model in the terminal.')
    .argument(
      '[dir]',
      'The model: the --save of a run (as --load), or a transformers directory (as --load-hf).',
    )
    .option('--system <text>', 'The system message that begins the conversation.')
    .option('--chat-template <file>', "A chat template in Jinja. [the tokenizer's]")
    .addOption(countOption('--max-new-tokens <n>', 'Maximum number of tokens of an answer.').default(512));
  return addSamplingFlags(command, { temperature: 0.7, topP: 0.95 })
    .addHelpText('after', notes)
    .requires(({ load, loadHf }: ChatFlags, [directory]) =>
      (directory ?? load ?? loadHf) === undefined
        ? [{ name: '--load (or --load-hf, or the directory alone)', usage: 'DIR' }]
        : [],
    )
    .action(runChat);
}

async function runChat(directory: string | undefined, flags: ChatFlags): Promise<void> {
  const loaded = await loadModelOfFlags(withDirectory(flags, directory));
  const onNotice = (text: string): void => void process.stderr.write(`${text}\n`);
  try {
    const own = requiredTokenizer(loaded);
    const { chatTemplate, system, maxNewTokens, seed } = flags;
    const options =
      chatTemplate === undefined ? own.options : ({ ...own.options, chatTemplate } as TokenizerOptions);
    const tokenizer = { ...own, options };
    const template = readChatTemplate(tokenizer);
    const session = new ChatSession({
      model: loaded.model,
      tokenizer,
      template,
      stopTokens: stopTokensOf(template, { tokenizer, endTokens: loaded.endTokens }),
      system,
      sampling: samplingOf(flags),
      maxNewTokens,
      seed,
      onNotice,
    });
    const { stdin: input, stdout: output } = process;
    process.exitCode = await converse({ session, input, output, onNotice });
  } finally {
    loaded.dispose();
  }
}

/** The flags with what the directory holds. @throws ConfigurationError MTL_FLAG_CONFLICT */
function withDirectory(flags: ChatFlags, directory: string | undefined): ChatFlags {
  if (directory === undefined) return flags;
  const other = flags.load ?? flags.loadHf;
  if (other !== undefined) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', `${directory} and ${other} are two models`, {
      remedy: 'leave one of them out',
    });
  }
  const isHuggingFace = existsSync(join(directory, 'config.json'));
  return { ...flags, ...(isHuggingFace ? { loadHf: directory } : { load: directory }) };
}
