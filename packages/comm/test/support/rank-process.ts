// The program of one rank of a test: uses Gloo if the hosts are given, else shared memory.
import { joinLocalWorld, runRank } from '@mtl/comm/testing';
import { GlooWorld } from './gloo-world.js';
import type { RankSettings } from './ranks.js';

const { module, argument, hosts, socketInterface, ...options } = JSON.parse(process.argv[2]!) as RankSettings;
await runRank({
  module,
  argument,
  join: () =>
    hosts === undefined ? joinLocalWorld(options) : new GlooWorld({ ...options, hosts, socketInterface }),
});
