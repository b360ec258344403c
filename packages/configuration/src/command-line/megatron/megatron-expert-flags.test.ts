import { formatError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import { catchError, small } from '../../../test/support/configure.js';
import { type FlagName, flagNames } from '../../schema/flag-schema.js';
import { validateConfiguration } from '../../validation/validate-configuration.js';
import { parseFlags } from '../parse-flags.js';

/** A command line for a model with eight experts, with which the flags below are valid. */
const experts = `${small} --num-experts 8 --disable-bias-linear --swiglu`;

const parse = (line: string) => parseFlags(`${experts} ${line}`.split(' '));

describe("Megatron-LM's flags of mixtures of experts", () => {
  it.each<[line: string, value: unknown]>([
    ['--num-experts 16', 16],
    ['--moe-layer-freq ([0]+[1]*3)', '[0]+[1]*3'],
    ['--moe-ffn-hidden-size 32', 32],
    ['--moe-router-topk 4', 4],
    ['--moe-router-load-balancing-type seq_aux_loss global_aux_loss', ['seq_aux_loss', 'global_aux_loss']],
    ['--moe-aux-loss-coeff 1e-2 1e-3', [0.01, 0.001]],
    ['--moe-z-loss-coeff 1e-3', 0.001],
    ['--moe-router-score-function sqrtsoftplus', 'sqrtsoftplus'],
    ['--moe-router-pre-softmax', true],
    ['--moe-router-topk-scaling-factor 2.5', 2.5],
    ['--moe-router-num-groups 4', 4],
    ['--moe-router-group-topk 2', 2],
    ['--moe-router-enable-expert-bias', true],
    ['--moe-router-bias-update-rate 1e-3', 0.001],
    ['--moe-expert-capacity-factor 1.5', 1.5],
    ['--moe-token-drop-policy position', 'position'],
    ['--moe-token-dispatcher-type allgather', 'allgather'],
    ['--moe-token-dispatcher-type alltoall', 'alltoall'],
    ['--expert-model-parallel-size 2', 2],
    ['--expert-tensor-parallel-size 1', 1],
    ['--moe-shared-expert-intermediate-size 64', 64],
    ['--moe-shared-expert-gate', true],
    ['--quick-geglu', true],
    ['--glu-linear-offset 1.0', 1],
    ['--activation-func-clamp-value 7.0', 7],
  ])('are flags here: %s', (line, value) => {
    const name = line.slice(2).split(' ')[0] as FlagName;
    expect(flagNames).toContain(name);
    expect(parse(line).values[name]).toEqual(value);
  });

  it.each<[line: string, why: RegExp]>([
    ['--moe-grouped-gemm', /always computed together/],
    ['--moe-use-legacy-grouped-gemm', /always computed together/],
    ['--moe-permute-fusion', /fused where it pays/],
    ['--moe-router-fusion', /fused where it pays/],
    ['--moe-router-dtype fp32', /that is how it always is here/],
    ['--moe-shared-expert-overlap', /shared experts always compute while/],
    ['--moe-pad-expert-input-to-capacity', /weight 0/],
    ['--moe-per-layer-logging', /metrics are for the whole model/],
    ['--delay-wgrad-compute', /what overlaps/],
  ])('have no effect where the result is the same: %s', (line, why) => {
    const { notices } = parse(line);
    expect(notices).toEqual([expect.stringMatching(`^${line} on the command line has no effect: `)]);
    expect(notices[0]).toMatch(why);
    expect(() => validateConfiguration(parse(line))).not.toThrow();
  });

  it.each<[line: string, text: RegExp]>([
    ['--moe-router-load-balancing-type sinkhorn', /MTL_FLAG_VALUE.*\n.*use seq_aux_loss, or none with/],
    ['--moe-router-load-balancing-type quantile_balancing', /MTL_FLAG_VALUE.*\n.*which tokens a rank has/],
    ['--moe-token-dispatcher-type flex', /MTL_FLAG_VALUE.*\n.*alltoall: the kernels of flex are not here/],
    ['--moe-flex-dispatcher-backend deepep', /flex dispatcher.*\n.*use --moe-token-dispatcher-type alltoall/],
    ['--moe-enable-deepep', /flex dispatcher/],
    ['--moe-deepep-num-sms 20', /flex dispatcher/],
    ['--moe-hybridep-num-sms 16', /flex dispatcher/],
    ['--moe-router-dtype fp64', /always in float32; expected fp32/],
    ['--moe-input-jitter-eps 0.1', /the router sees what the experts see/],
    ['--moe-router-force-load-balancing', /tokens go where the router says/],
    ['--moe-enable-routing-replay', /tokens go where the router says/],
    ['--moe-apply-probs-on-input', /multiply values inside the experts/],
    ['--moe-latent-size 64', /experts have the width of the model/],
    ['--moe-mlp-glu-interleave-size 32', /two blocks of rows/],
    ['--overlap-moe-expert-parallel-comm', /one after the other/],
    ['--moe-upcycling-granularity 2', /a copy of a whole layer; expected 1/],
    ['--moe-layer-recompute', /use --recompute-granularity full/],
    ['--moe-extended-tp', /use --expert-tensor-parallel-size/],
    ['--moe-router-topk-limited-devices 4', /use --moe-router-num-groups and --moe-router-group-topk/],
    ['--moe-router-padding-for-fp8', /use --bf16/],
  ])('are refused with their reason where it is another: %s', (line, text) => {
    expect(formatError(catchError(`${experts} ${line}`))).toMatch(text);
  });

  it('reads the lines of published models', () => {
    const deepseek =
      '--num-experts 256 --moe-layer-freq ([0]*3+[1]*58) --moe-ffn-hidden-size 2048 --moe-router-topk 8 ' +
      '--moe-shared-expert-intermediate-size 2048 --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 1e-4 ' +
      '--moe-router-num-groups 8 --moe-router-group-topk 4 --moe-router-topk-scaling-factor 2.5 ' +
      '--moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-bias-update-rate 1e-3 ' +
      '--moe-router-pre-softmax --moe-router-dtype fp32 --moe-grouped-gemm --moe-token-dispatcher-type alltoall ' +
      '--expert-model-parallel-size 64 --expert-tensor-parallel-size 1 --disable-bias-linear --swiglu';
    const line = `${small.replace('--num-layers 4', '--num-layers 61')} --global-batch-size 128 ${deepseek}`;
    const { model, notices } = validateConfiguration(parseFlags(line.split(' ')), { worldSize: 64 });
    expect(model.moeLayerFreq).toEqual([0, 0, 0, ...new Array(58).fill(1)]);
    expect(model).toMatchObject({ moeRouterTopkScalingFactor: 2.5, moeRouterGroupTopk: 4, moeRouterTopk: 8 });
    expect(notices.map((text) => text.split(' ')[0])).toEqual([
      '--moe-router-dtype',
      '--moe-grouped-gemm',
      '--moe-router-pre-softmax',
    ]);
  });
});
