BEGIN TRANSACTION;
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE calls (
	number INTEGER NOT NULL, 
	run_id VARCHAR(255) NOT NULL, 
	prompt_id VARCHAR(255) NOT NULL, 
	attempt INTEGER NOT NULL, 
	model TEXT NOT NULL, 
	outcome VARCHAR(32) NOT NULL, 
	reason TEXT NOT NULL, 
	prompt_tokens INTEGER, 
	completion_tokens INTEGER, 
	cost DOUBLE, 
	seconds DOUBLE NOT NULL, 
	at VARCHAR(64) NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(run_id) REFERENCES runs (id), 
	FOREIGN KEY(prompt_id) REFERENCES prompts (id)
);
CREATE TABLE candidate_parents (
  candidate_id VARCHAR(255) NOT NULL,
  position INTEGER NOT NULL,
  program_id VARCHAR(255) NOT NULL,
  role VARCHAR(32) NOT NULL,
  PRIMARY KEY (candidate_id, position),
  FOREIGN KEY(candidate_id) REFERENCES candidates (id),
  FOREIGN KEY(program_id) REFERENCES programs (id)
) WITHOUT ROWID;
CREATE TABLE candidates (
  id VARCHAR(255) NOT NULL,
  run_id VARCHAR(255) NOT NULL,
  position INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  prompt_id VARCHAR(255) NOT NULL,
  rollout_id VARCHAR(255),
  parse_status VARCHAR(32) NOT NULL,
  program_id VARCHAR(255),
  source TEXT,
  token_start INTEGER,
  token_end INTEGER,
  text TEXT NOT NULL,
  evaluation_id VARCHAR(255),
  executed BOOLEAN NOT NULL, reason TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(run_id, position) REFERENCES tells (run_id, position),
  CONSTRAINT candidates_in_order UNIQUE (run_id, position, slot),
  FOREIGN KEY(prompt_id) REFERENCES prompts (id),
  FOREIGN KEY(rollout_id) REFERENCES rollouts (id),
  FOREIGN KEY(program_id) REFERENCES programs (id),
  FOREIGN KEY(evaluation_id) REFERENCES evaluations (id)
);
CREATE TABLE evaluations (
  id VARCHAR(255) NOT NULL,
  problem_version VARCHAR(255) NOT NULL,
  program_id VARCHAR(255) NOT NULL,
  private_to VARCHAR(255) NOT NULL,
  status VARCHAR(32) NOT NULL,
  feedback TEXT NOT NULL,
  seconds DOUBLE NOT NULL,
  isolation TEXT NOT NULL,
  outputs TEXT,
  digest VARCHAR(32) NOT NULL, metrics TEXT, trust VARCHAR(32) DEFAULT 'high' NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT evaluations_once UNIQUE (problem_version, program_id, private_to),
  FOREIGN KEY(program_id) REFERENCES programs (id)
);
CREATE TABLE objectives (
  problem_id VARCHAR(255) NOT NULL,
  problem_version VARCHAR(255) NOT NULL,
  objective INTEGER NOT NULL,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  PRIMARY KEY (problem_id, problem_version, objective),
  FOREIGN KEY(problem_id, problem_version) REFERENCES problems (id, version)
);
CREATE TABLE policy_events (
	number INTEGER NOT NULL, 
	policy_version INTEGER, 
	kind VARCHAR(32) NOT NULL, 
	detail TEXT NOT NULL, 
	at VARCHAR(64) NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE policy_versions (
  number INTEGER NOT NULL,
  parent INTEGER,
  path TEXT NOT NULL,
  trained_through VARCHAR(255),
  config_hash VARCHAR(255) NOT NULL,
  metrics TEXT NOT NULL,
  PRIMARY KEY (number)
);
CREATE TABLE problems (
  id VARCHAR(255) NOT NULL,
  version VARCHAR(255) NOT NULL,
  statement TEXT NOT NULL,
  entry TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (id, version)
);
CREATE TABLE programs (
  id VARCHAR(255) NOT NULL,
  source TEXT NOT NULL,
  PRIMARY KEY (id)
);
CREATE TABLE prompt_parents (
  prompt_id VARCHAR(255) NOT NULL,
  position INTEGER NOT NULL,
  program_id VARCHAR(255) NOT NULL,
  role VARCHAR(32) NOT NULL,
  PRIMARY KEY (prompt_id, position),
  FOREIGN KEY(prompt_id) REFERENCES prompts (id),
  FOREIGN KEY(program_id) REFERENCES programs (id)
) WITHOUT ROWID;
CREATE TABLE prompts (
  id VARCHAR(255) NOT NULL,
  run_id VARCHAR(255) NOT NULL,
  sequence INTEGER NOT NULL,
  tells_before INTEGER NOT NULL,
  kind VARCHAR(32) NOT NULL,
  island INTEGER NOT NULL,
  messages TEXT NOT NULL,
  rollouts INTEGER NOT NULL,
  answers INTEGER NOT NULL,
  seed VARCHAR(80) NOT NULL,
  proposals TEXT NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT prompts_in_order UNIQUE (run_id, sequence),
  FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE TABLE rewards (
  evaluation_id VARCHAR(255) NOT NULL,
  objective INTEGER NOT NULL,
  name TEXT NOT NULL,
  value DOUBLE NOT NULL,
  PRIMARY KEY (evaluation_id, objective),
  FOREIGN KEY(evaluation_id) REFERENCES evaluations (id)
) WITHOUT ROWID;
CREATE TABLE rollouts (
  id VARCHAR(255) NOT NULL,
  prompt_id VARCHAR(255) NOT NULL,
  rollout_index INTEGER NOT NULL,
  policy_version INTEGER NOT NULL,
  text TEXT NOT NULL,
  tokens INTEGER,
  token_ids BLOB,
  logprobs BLOB,
  prompt_token_ids BLOB,
  temperature DOUBLE NOT NULL,
  max_tokens INTEGER NOT NULL,
  grammar_masked BOOLEAN NOT NULL,
  finish_reason TEXT NOT NULL,
  seconds DOUBLE NOT NULL, model TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT rollouts_in_group UNIQUE (prompt_id, rollout_index),
  FOREIGN KEY(prompt_id) REFERENCES prompts (id)
);
CREATE TABLE run_events (
  number INTEGER NOT NULL,
  run_id VARCHAR(255) NOT NULL,
  status VARCHAR(32) NOT NULL,
  at VARCHAR(64) NOT NULL,
  PRIMARY KEY (number),
  FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE TABLE runs (
  id VARCHAR(255) NOT NULL,
  problem_id VARCHAR(255) NOT NULL,
  problem_version VARCHAR(255) NOT NULL,
  seed VARCHAR(80) NOT NULL,
  evaluations INTEGER NOT NULL,
  config TEXT NOT NULL,
  created_at VARCHAR(64) NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(problem_id, problem_version) REFERENCES problems (id, version)
);
CREATE TABLE tells (
  run_id VARCHAR(255) NOT NULL,
  position INTEGER NOT NULL,
  prompt_id VARCHAR(255) NOT NULL,
  rollout_index INTEGER NOT NULL,
  rollout_id VARCHAR(255),
  executed INTEGER NOT NULL,
  PRIMARY KEY (run_id, position),
  CONSTRAINT tells_once UNIQUE (prompt_id, rollout_index),
  FOREIGN KEY(run_id) REFERENCES runs (id),
  FOREIGN KEY(prompt_id) REFERENCES prompts (id),
  FOREIGN KEY(rollout_id) REFERENCES rollouts (id)
);
CREATE TABLE training_runs (
	training_id VARCHAR(255) NOT NULL, 
	position INTEGER NOT NULL, 
	run_id VARCHAR(255) NOT NULL, 
	after_prompt VARCHAR(255), 
	through_prompt VARCHAR(255), 
	PRIMARY KEY (training_id, position), 
	FOREIGN KEY(training_id) REFERENCES trainings (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id), 
	FOREIGN KEY(after_prompt) REFERENCES prompts (id), 
	FOREIGN KEY(through_prompt) REFERENCES prompts (id)
)
 WITHOUT ROWID

;
CREATE TABLE training_steps (
	training_id VARCHAR(255) NOT NULL, 
	step INTEGER NOT NULL, 
	set_score DOUBLE NOT NULL, 
	pool_score DOUBLE NOT NULL, 
	mean_reward DOUBLE NOT NULL, 
	pass_rate DOUBLE NOT NULL, 
	diversity DOUBLE NOT NULL, 
	distinct_programs DOUBLE NOT NULL, 
	entropy DOUBLE NOT NULL, 
	kl DOUBLE NOT NULL, 
	clip_share DOUBLE NOT NULL, 
	zero_spread_share DOUBLE NOT NULL, 
	staleness DOUBLE NOT NULL, 
	loss DOUBLE NOT NULL, 
	grad_norm DOUBLE NOT NULL, 
	groups INTEGER NOT NULL, 
	tokens INTEGER NOT NULL, 
	seconds DOUBLE NOT NULL, 
	PRIMARY KEY (training_id, step), 
	FOREIGN KEY(training_id) REFERENCES trainings (id)
)
 WITHOUT ROWID

;
CREATE TABLE trainings (
	id VARCHAR(255) NOT NULL, 
	objective VARCHAR(32) NOT NULL, 
	config TEXT NOT NULL, 
	start_version INTEGER NOT NULL, 
	seed VARCHAR(80) NOT NULL, 
	created_at VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(start_version) REFERENCES policy_versions (number)
);
CREATE INDEX run_events_by_run ON run_events (run_id);
CREATE INDEX candidates_by_program ON candidates (program_id, run_id);
CREATE INDEX calls_by_run ON calls (run_id);
COMMIT;
