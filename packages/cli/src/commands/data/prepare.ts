import { tokenizerFlags } from '@mtl/configuration/flags';
import { corpusFileNames, type PrepareSummary, prepareDataset } from '@mtl/data';
import { preparedPrefix, refuseExistingDataset } from '@mtl/data/internal';
import { type TokenizerOptions, tokenizerTypes } from '@mtl/tokenizers';
import { formatBytes } from '@mtl/trainer';
import type { Command } from 'commander';
import {
  folderLine,
  inWordsOfFlags,
  skipBadLinesOption,
  warnOfBadLines,
} from '../../command-line/corpus-reading.js';
import { addFlags, type TokenizerFlagValues, tokenizerOfFlags } from '../../command-line/flag-options.js';
import { newCommand } from '../../command-line/new-command.js';
import { choiceOption, countOption, overwriteOption } from '../../command-line/option-values.js';
import { interruptible } from '../../terminal/interruption.js';
import { ProgressBar } from '../../terminal/progress-bar.js';

type PrepareFlags = TokenizerFlagValues & {
  readonly input: string[];
  readonly outputPrefix: string;
  readonly jsonKeys: string[];
  readonly appendEod?: true;
  readonly splitSentences?: true;
  readonly lang: string;
  readonly workers?: number;
  readonly textDocuments: 'paragraph' | 'file';
  readonly skipBadLines?: true;
  readonly overwrite?: true;
};

/**
 * Creates the command `mtl data prepare`, which does the same as Megatron-LM's preprocess_data and accepts
 * its flags.
 */
export function prepareCommand(): Command {
  const command = newCommand(
    'prepare',
    'Tokenizes a corpus into a .bin/.idx dataset, byte for byte as Megatron-LM.',
  )
    .requiredOption('--input <files...>', `Files of text: ${corpusFileNames}; or folders of such files.`)
    .requiredOption('--output-prefix <prefix>', 'Writes PREFIX_KEY_document.bin and .idx (or _sentence).')
    .option('--json-keys <keys...>', 'Keys of JSON lines, or columns of Parquet; a dataset each.', ['text'])
    .option('--append-eod', 'Ends every document with the end-of-document token.')
    .option('--split-sentences', 'Makes a sequence of every sentence, as BERT needs it.')
    .option('--lang <tag>', 'Language of the sentences.', 'en')
    .addOption(
      countOption(
        '--workers <n>',
        'Threads; 0: only for long documents. [one per core, 0 for a small corpus]',
        {
          least: 0,
        },
      ),
    )
    .addOption(
      choiceOption('--text-documents <what>', 'What a document of plain text is.', [
        'paragraph',
        'file',
      ]).default('paragraph'),
    )
    .addOption(skipBadLinesOption())
    .addOption(overwriteOption('datasets'));
  return addFlags(command, tokenizerFlags)
    .requires(({ tokenizerType }: PrepareFlags) =>
      tokenizerType === undefined
        ? [{ name: '--tokenizer-type', usage: `--tokenizer-type ${tokenizerTypes.join('|')}` }]
        : [],
    )
    .action(prepare);
}

function prepare(flags: PrepareFlags): Promise<void> {
  return interruptible(async (signal) => {
    try {
      await prepareAll(flags, signal);
    } catch (error) {
      throw inWordsOfFlags(error, { keyFlag: '--json-keys', skipsBadLines: flags.skipBadLines === true });
    }
  });
}

async function prepareAll(flags: PrepareFlags, signal: AbortSignal): Promise<void> {
  const tokenizer = tokenizerOfFlags(flags) as TokenizerOptions;
  const jsonKeys = [...new Set(flags.jsonKeys)];
  const overwrite = flags.overwrite === true;
  const output = { outputPrefix: flags.outputPrefix, splitSentences: flags.splitSentences === true };
  // checks all datasets before writing the first
  for (const jsonKey of overwrite ? [] : jsonKeys)
    refuseExistingDataset(preparedPrefix({ ...output, jsonKey }));
  for (const jsonKey of jsonKeys) {
    const bar = new ProgressBar();
    try {
      const summary = await prepareDataset({
        ...output,
        overwrite,
        inputs: flags.input,
        tokenizer,
        jsonKey,
        textDocuments: flags.textDocuments,
        appendEod: flags.appendEod === true,
        sentenceLocale: flags.lang,
        skipBadLines: flags.skipBadLines === true,
        signal,
        ...(flags.workers === undefined ? {} : { workers: flags.workers }),
        onProgress: ({ bytes, totalBytes, documents }) =>
          bar.update(
            bytes / totalBytes,
            `${documents.toLocaleString('en-US')} documents, ${formatBytes(bytes)}`,
          ),
      });
      bar.close();
      for (const input of summary.inputs) process.stdout.write(folderLine(input));
      process.stdout.write(
        summaryLine({ summary, seconds: bar.seconds, splitSentences: output.splitSentences }),
      );
      warnOfBadLines({ count: summary.numBadLines, first: summary.firstBadLine });
      if (summary.numTokens === 0) {
        process.stderr.write(
          `warning[MTL_DATA_NO_TOKENS]: ${flags.input.join(', ')}: no text in it, so nothing can be trained on ${summary.prefix}\n`,
        );
      }
    } finally {
      bar.close();
    }
  }
}

function summaryLine(options: { summary: PrepareSummary; seconds: number; splitSentences: boolean }): string {
  const { summary, seconds, splitSentences } = options;
  const count = (value: number): string => value.toLocaleString('en-US');
  const sentences = splitSentences ? `${count(summary.numSequences)} sentences, ` : '';
  const empty = summary.numEmptyDocuments === 0 ? '' : ` (${count(summary.numEmptyDocuments)} empty)`;
  return (
    `${summary.prefix}.bin: ${count(summary.numDocuments)} documents${empty}, ${sentences}${count(summary.numTokens)} tokens ` +
    `of ${summary.dtype} in ${seconds.toFixed(1)} s\n`
  );
}
