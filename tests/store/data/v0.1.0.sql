BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE cohorts (
	name VARCHAR NOT NULL, 
	parent VARCHAR, 
	quotas JSON NOT NULL, 
	weight INTEGER NOT NULL, 
	CONSTRAINT pk_cohorts PRIMARY KEY (name)
);
INSERT INTO "cohorts" VALUES('org',NULL,'{}',1);
INSERT INTO "cohorts" VALUES('research','org','{"h100/gpu":{"borrowing_limit":8,"lending_limit":4,"nominal":16},"h100/nvidia.com/mig":{"borrowing_limit":null,"lending_limit":null,"nominal":2}}',3);
CREATE TABLE events (
	revision BIGINT NOT NULL, 
	seq INTEGER NOT NULL, 
	time DATETIME NOT NULL, 
	actor VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	action JSON NOT NULL, 
	law VARCHAR NOT NULL, 
	workflow VARCHAR, 
	pool VARCHAR, 
	CONSTRAINT pk_events PRIMARY KEY (revision, seq)
);
INSERT INTO "events" VALUES(1,0,'2026-09-21 14:13:21.123457','alice','SetFlavors','{"flavors":[{"allow":["privileged"],"name":"h100","node_labels":{"gpu":"h100"},"position":0,"taints":[{"effect":"NoSchedule","key":"dedicated","value":"ml"}]},{"allow":[],"name":"b200","node_labels":{"gpu":"b200"},"position":1,"taints":[]}]}','P1',NULL,NULL);
INSERT INTO "events" VALUES(1,1,'2026-09-21 14:13:21.123457','alice','PutNode','{"node":{"flavor":"h100","labels":{"gpu":"h100","rack":"r0"},"name":"n0","ready":true,"resources":{"cpu":96000,"gpu":8,"memory":1099511627776},"taints":[]}}','P1',NULL,NULL);
INSERT INTO "events" VALUES(1,2,'2026-09-21 14:13:21.123457','alice','PutNode','{"node":{"flavor":"b200","labels":{"gpu":"b200"},"name":"n1","ready":false,"resources":{"gpu":8},"taints":[{"effect":"NoExecute","key":"spot","value":""}]}}','P1',NULL,NULL);
INSERT INTO "events" VALUES(1,3,'2026-09-21 14:13:21.123457','alice','PutNode','{"node":{"flavor":"default","labels":{},"name":"n2","ready":true,"resources":{"gpu":4},"taints":[]}}','P1',NULL,NULL);
INSERT INTO "events" VALUES(1,4,'2026-09-21 14:13:21.123457','alice','PutCohort','{"before":null,"cohort":{"name":"org","parent":null,"quotas":{},"weight":1}}','P1',NULL,NULL);
INSERT INTO "events" VALUES(1,5,'2026-09-21 14:13:21.123457','alice','PutCohort','{"before":null,"cohort":{"name":"research","parent":"org","quotas":{"h100/gpu":{"borrowing_limit":8,"lending_limit":4,"nominal":16},"h100/nvidia.com/mig":{"borrowing_limit":null,"lending_limit":null,"nominal":2}},"weight":3}}','P1',NULL,NULL);
INSERT INTO "events" VALUES(1,6,'2026-09-21 14:13:21.123457','alice','PutCohort','{"before":null,"cohort":{"name":"sales","parent":"org","quotas":{},"weight":1}}','P1',NULL,NULL);
INSERT INTO "events" VALUES(1,7,'2026-09-21 14:13:21.123457','alice','PutPool','{"before":null,"pool":{"cohort":null,"default_exit_actions":[],"default_platform":null,"description":"","flavors":[],"grace_s":30.0,"name":"old","parent":null,"queueing":"BEST_EFFORT_FIFO","quotas":{},"state":"ARCHIVED","subpool_name":null,"topology_keys":[],"weight":1}}','P1',NULL,'old');
INSERT INTO "events" VALUES(1,8,'2026-09-21 14:13:21.123457','alice','PutPool','{"before":null,"pool":{"cohort":"research","default_exit_actions":[["RESCHEDULE",137,143]],"default_platform":"h100","description":"the team''s own; ''quoted'', \u201cquoted\u201d","flavors":["h100","b200"],"grace_s":12.5,"name":"team","parent":null,"queueing":"STRICT_FIFO","quotas":{"h100/gpu":{"borrowing_limit":null,"lending_limit":0,"nominal":100},"h100/memory":{"borrowing_limit":null,"lending_limit":null,"nominal":9223372036854775807}},"state":"ACTIVE","subpool_name":null,"topology_keys":[{"key":"zone","label":"topology.kubernetes.io/zone"},{"key":"rack","label":"rack"}],"weight":2}}','P1',NULL,'team');
INSERT INTO "events" VALUES(1,9,'2026-09-21 14:13:21.123457','alice','PutPool','{"before":null,"pool":{"cohort":null,"default_exit_actions":[],"default_platform":null,"description":"","flavors":[],"grace_s":30.0,"name":"team--a","parent":"team","queueing":"BEST_EFFORT_FIFO","quotas":{"h100/gpu":{"borrowing_limit":null,"lending_limit":null,"nominal":30}},"state":"ACTIVE","subpool_name":"a","topology_keys":[],"weight":1}}','P1',NULL,'team--a');
INSERT INTO "events" VALUES(1,10,'2026-09-21 14:13:21.123457','alice','PutPool','{"before":null,"pool":{"cohort":null,"default_exit_actions":[],"default_platform":null,"description":"","flavors":[],"grace_s":30.0,"name":"team--b","parent":"team","queueing":"BEST_EFFORT_FIFO","quotas":{"h100/gpu":{"borrowing_limit":null,"lending_limit":null,"nominal":40}},"state":"DELETING","subpool_name":"b","topology_keys":[],"weight":1}}','P1',NULL,'team--b');
INSERT INTO "events" VALUES(1,11,'2026-09-21 14:13:21.123457','alice','PutPool','{"before":null,"pool":{"cohort":null,"default_exit_actions":[],"default_platform":null,"description":"","flavors":[],"grace_s":30.0,"name":"team--c","parent":"team","queueing":"BEST_EFFORT_FIFO","quotas":{"h100/gpu":{"borrowing_limit":null,"lending_limit":null,"nominal":20}},"state":"ARCHIVED","subpool_name":"c","topology_keys":[],"weight":1}}','P1',NULL,'team--c');
INSERT INTO "events" VALUES(2,0,'2026-09-21 14:13:22.123457','alice','DropNode','{"name":"n2"}','P1',NULL,NULL);
INSERT INTO "events" VALUES(2,1,'2026-09-21 14:13:22.123457','alice','DropCohort','{"before":{"name":"sales","parent":"org","quotas":{},"weight":1}}','P1',NULL,NULL);
INSERT INTO "events" VALUES(2,2,'2026-09-21 14:13:22.123457','alice','PutPool','{"before":{"cohort":"research","default_exit_actions":[["RESCHEDULE",137,143]],"default_platform":"h100","description":"the team''s own; ''quoted'', \u201cquoted\u201d","flavors":["h100","b200"],"grace_s":12.5,"name":"team","parent":null,"queueing":"STRICT_FIFO","quotas":{"h100/gpu":{"borrowing_limit":null,"lending_limit":0,"nominal":100},"h100/memory":{"borrowing_limit":null,"lending_limit":null,"nominal":9223372036854775807}},"state":"ACTIVE","subpool_name":null,"topology_keys":[{"key":"zone","label":"topology.kubernetes.io/zone"},{"key":"rack","label":"rack"}],"weight":1},"pool":{"cohort":"research","default_exit_actions":[["RESCHEDULE",137,143]],"default_platform":"h100","description":"the team''s own; ''quoted'', \u201cquoted\u201d","flavors":["h100","b200"],"grace_s":12.5,"name":"team","parent":null,"queueing":"STRICT_FIFO","quotas":{"h100/gpu":{"borrowing_limit":null,"lending_limit":0,"nominal":100},"h100/memory":{"borrowing_limit":null,"lending_limit":null,"nominal":9223372036854775807}},"state":"ACTIVE","subpool_name":null,"topology_keys":[{"key":"zone","label":"topology.kubernetes.io/zone"},{"key":"rack","label":"rack"}],"weight":2}}','P1',NULL,'team');
INSERT INTO "events" VALUES(3,0,'2026-09-21 14:13:23.123457','alice','Submit','{"groups":[{"attempt":0,"end_time":1790000009.123457,"failure_message":"","name":"fit","preemptions":0,"queued_time":null,"start_time":1790000005.123457,"status":"COMPLETED","stopping":null,"workflow":"train-1"}],"workflow":{"cancelled_by":null,"end_time":1790000009.123458,"failure_message":"","id":"train-1","labels":{},"name":"train","number":1,"parent":null,"pool":"team","priority":"NORMAL","spec_hash":"hash-of-train","start_time":1790000005.123457,"status":"COMPLETED","submit_time":1790000001.123457,"submitted_by":"alice","uuid":"uuid-of-train-1"}}','P1','train-1',NULL);
INSERT INTO "events" VALUES(3,1,'2026-09-21 14:13:23.123457','alice','Queue','{"gang":{"attempt":0,"id":"train-2/fit","pod_sets":[{"count":4,"min_count":2,"name":"worker","platform":"h100","requests":[["cpu",4000],["gpu",8]]},{"count":1,"min_count":null,"name":"side","platform":null,"requests":[]}],"pool":"team","priority":"NORMAL","submitted_at":1790000002.123457}}','P1','train-2',NULL);
INSERT INTO "events" VALUES(3,2,'2026-09-21 14:13:23.123457','alice','MoveTask','{"exit_code":0,"key":["train-2","fetch",0],"message":"ok","status":"COMPLETED"}','P1','train-2',NULL);
INSERT INTO "events" VALUES(4,0,'2026-09-21 14:13:24.123457','alice','Submit','{"groups":[{"attempt":0,"end_time":null,"failure_message":"","name":"run","preemptions":0,"queued_time":1790000001.123457,"start_time":null,"status":"SCHEDULING","stopping":null,"workflow":"eval-1"}],"workflow":{"cancelled_by":null,"end_time":null,"failure_message":"","id":"eval-1","labels":{},"name":"eval","number":1,"parent":null,"pool":"team--a","priority":"NORMAL","spec_hash":"hash-of-eval","start_time":null,"status":"PENDING","submit_time":1790000001.123457,"submitted_by":"bob","uuid":"uuid-of-eval-1"}}','P1','eval-1',NULL);
INSERT INTO "events" VALUES(4,1,'2026-09-21 14:13:24.123457','alice','Submit','{"groups":[{"attempt":0,"end_time":1790000007.123457,"failure_message":"","name":"run","preemptions":0,"queued_time":null,"start_time":null,"status":"FAILED_CANCELED","stopping":null,"workflow":"eval-2"}],"workflow":{"cancelled_by":"carol","end_time":1790000007.123457,"failure_message":"no longer needed","id":"eval-2","labels":{},"name":"eval","number":2,"parent":null,"pool":"team","priority":"NORMAL","spec_hash":"hash-of-eval","start_time":null,"status":"FAILED_CANCELED","submit_time":1790000002.123457,"submitted_by":"bob","uuid":"uuid-of-eval-2"}}','P1','eval-2',NULL);
INSERT INTO "events" VALUES(5,0,'2026-09-21 14:13:25.123457','alice','Nominate','{"gang":"train-3/fit","placement":[{"count":2,"flavor":"h100","pod_set":"worker","shares":[{"count":1,"gpus":[0,1,2],"node":"n0"},{"count":1,"gpus":[7],"node":"n1"}]},{"count":1,"flavor":"h100","pod_set":"side","shares":[]}],"targets":["train-4/fit"]}','P1','train-3',NULL);
INSERT INTO "events" VALUES(5,1,'2026-09-21 14:13:25.123457','alice','Withdraw','{"gang":"train-3/fit"}','P1','train-3',NULL);
INSERT INTO "events" VALUES(5,2,'2026-09-21 14:13:25.123457','alice','Preempt','{"by":"train-3/fit","gang":"train-4/fit","law":"RECLAIM","spared":[]}','P1','train-4',NULL);
INSERT INTO "events" VALUES(5,3,'2026-09-21 14:13:25.123457','alice','Stop','{"cause":"FAILED_CANCELED","gang":"eval-2/run"}','P1','eval-2',NULL);
INSERT INTO "events" VALUES(5,4,'2026-09-21 14:13:25.123457','alice','Admit','{"gang":"train-2/fit","placement":[{"count":2,"flavor":"h100","pod_set":"worker","shares":[{"count":1,"gpus":[0,1,2],"node":"n0"},{"count":1,"gpus":[7],"node":"n1"}]},{"count":1,"flavor":"h100","pod_set":"side","shares":[]}]}','P1','train-2',NULL);
INSERT INTO "events" VALUES(5,5,'2026-09-21 14:13:25.123457','alice','Release','{"gang":"eval-2/run"}','P1','eval-2',NULL);
INSERT INTO "events" VALUES(5,6,'2026-09-21 14:13:25.123457','alice','RetryTask','{"key":["train-2","worker-0",0]}','P1','train-2',NULL);
INSERT INTO "events" VALUES(5,7,'2026-09-21 14:13:25.123457','alice','RestartTask','{"key":["train-2","worker-1",1]}','P1','train-2',NULL);
INSERT INTO "events" VALUES(5,8,'2026-09-21 14:13:25.123457','alice','MoveGroup','{"group":"fit","message":"for train-3/fit","status":"RUNNING","stopping":"FAILED_PREEMPTED","workflow":"train-4"}','P1','train-4',NULL);
INSERT INTO "events" VALUES(5,9,'2026-09-21 14:13:25.123457','alice','MoveWorkflow','{"cancelled_by":"carol","message":"no longer needed","status":"FAILED_CANCELED","workflow":"eval-2"}','P1','eval-2',NULL);
CREATE TABLE flavors (
	name VARCHAR NOT NULL, 
	position INTEGER NOT NULL, 
	node_labels JSON NOT NULL, 
	taints JSON NOT NULL, 
	allow JSON NOT NULL, 
	CONSTRAINT pk_flavors PRIMARY KEY (name)
);
INSERT INTO "flavors" VALUES('h100',0,'{"gpu":"h100"}','[{"effect":"NoSchedule","key":"dedicated","value":"ml"}]','["privileged"]');
INSERT INTO "flavors" VALUES('b200',1,'{"gpu":"b200"}','[]','[]');
CREATE TABLE gangs (
	id VARCHAR NOT NULL, 
	workflow VARCHAR NOT NULL, 
	pool VARCHAR NOT NULL, 
	priority VARCHAR(32) NOT NULL, 
	submitted_at DATETIME NOT NULL, 
	pod_sets JSON NOT NULL, 
	attempt INTEGER NOT NULL, 
	state VARCHAR(32) NOT NULL, 
	placement JSON NOT NULL, 
	waits_for JSON NOT NULL, 
	admitted_at DATETIME, 
	preempted_by VARCHAR, 
	law VARCHAR(32), 
	CONSTRAINT pk_gangs PRIMARY KEY (id), 
	CONSTRAINT fk_gangs_workflow FOREIGN KEY(workflow) REFERENCES workflows (id)
);
INSERT INTO "gangs" VALUES('train-2/fit','train-2','team','NORMAL','2026-09-21 14:13:22.123457','[{"count":4,"min_count":2,"name":"worker","platform":"h100","requests":[["cpu",4000],["gpu",8]]},{"count":1,"min_count":null,"name":"side","platform":null,"requests":[]}]',1,'ADMITTED','[{"count":2,"flavor":"h100","pod_set":"worker","shares":[{"count":1,"gpus":[0,1,2],"node":"n0"},{"count":1,"gpus":[7],"node":"n1"}]},{"count":1,"flavor":"h100","pod_set":"side","shares":[]}]','[]','2026-09-21 14:13:23.373457',NULL,NULL);
INSERT INTO "gangs" VALUES('eval-1/run','eval-1','team--a','NORMAL','2026-09-21 14:13:21.123457','[{"count":4,"min_count":2,"name":"worker","platform":"h100","requests":[["cpu",4000],["gpu",8]]},{"count":1,"min_count":null,"name":"side","platform":null,"requests":[]}]',0,'PENDING','[]','[]',NULL,NULL,NULL);
INSERT INTO "gangs" VALUES('train-3/fit','train-3','team--a','HIGH','2026-09-21 14:13:23.123457','[{"count":4,"min_count":2,"name":"worker","platform":"h100","requests":[["cpu",4000],["gpu",8]]},{"count":1,"min_count":null,"name":"side","platform":null,"requests":[]}]',0,'NOMINATED','[{"count":2,"flavor":"h100","pod_set":"worker","shares":[{"count":1,"gpus":[0,1,2],"node":"n0"},{"count":1,"gpus":[7],"node":"n1"}]},{"count":1,"flavor":"h100","pod_set":"side","shares":[]}]','["train-4/fit"]',NULL,NULL,NULL);
INSERT INTO "gangs" VALUES('train-4/fit','train-4','team--b','LOW','2026-09-21 14:13:24.123457','[{"count":4,"min_count":2,"name":"worker","platform":"h100","requests":[["cpu",4000],["gpu",8]]},{"count":1,"min_count":null,"name":"side","platform":null,"requests":[]}]',0,'STOPPING','[{"count":2,"flavor":"h100","pod_set":"worker","shares":[{"count":1,"gpus":[0,1,2],"node":"n0"},{"count":1,"gpus":[7],"node":"n1"}]},{"count":1,"flavor":"h100","pod_set":"side","shares":[]}]','[]','2026-09-21 14:13:26.123457','train-3/fit','RECLAIM');
CREATE TABLE groups (
	workflow VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	status VARCHAR(32) NOT NULL, 
	attempt INTEGER NOT NULL, 
	preemptions INTEGER NOT NULL, 
	stopping VARCHAR(32), 
	failure_message TEXT NOT NULL, 
	queued_time DATETIME, 
	start_time DATETIME, 
	end_time DATETIME, 
	CONSTRAINT pk_groups PRIMARY KEY (workflow, name), 
	CONSTRAINT fk_groups_workflow FOREIGN KEY(workflow) REFERENCES workflows (id)
);
INSERT INTO "groups" VALUES('train-1','fit','COMPLETED',0,0,NULL,'',NULL,'2026-09-21 14:13:25.123457','2026-09-21 14:13:29.123457');
INSERT INTO "groups" VALUES('train-2','fit','RUNNING',1,1,NULL,'','2026-09-21 14:13:22.123457','2026-09-21 14:13:23.123457',NULL);
INSERT INTO "groups" VALUES('train-2','prepare','COMPLETED',0,0,NULL,'',NULL,'2026-09-21 14:13:22.123457','2026-09-21 14:13:22.623457');
INSERT INTO "groups" VALUES('eval-1','run','SCHEDULING',0,0,NULL,'','2026-09-21 14:13:21.123457',NULL,NULL);
INSERT INTO "groups" VALUES('eval-2','run','FAILED_CANCELED',0,0,NULL,'',NULL,NULL,'2026-09-21 14:13:27.123457');
INSERT INTO "groups" VALUES('train-3','fit','SCHEDULING',0,0,NULL,'','2026-09-21 14:13:23.123457',NULL,NULL);
INSERT INTO "groups" VALUES('train-4','fit','RUNNING',0,0,'FAILED_PREEMPTED','for train-3/fit',NULL,NULL,NULL);
CREATE TABLE meta (
	id INTEGER NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_meta PRIMARY KEY (id), 
	CONSTRAINT ck_meta_one_row CHECK (id = 1)
);
INSERT INTO "meta" VALUES(1,5);
CREATE TABLE nodes (
	name VARCHAR NOT NULL, 
	resources JSON NOT NULL, 
	flavor VARCHAR NOT NULL, 
	labels JSON NOT NULL, 
	taints JSON NOT NULL, 
	ready BOOLEAN NOT NULL, 
	CONSTRAINT pk_nodes PRIMARY KEY (name)
);
INSERT INTO "nodes" VALUES('n0','{"cpu":96000,"gpu":8,"memory":1099511627776}','h100','{"gpu":"h100","rack":"r0"}','[]',1);
INSERT INTO "nodes" VALUES('n1','{"gpu":8}','b200','{"gpu":"b200"}','[{"effect":"NoExecute","key":"spot","value":""}]',0);
CREATE TABLE pools (
	name VARCHAR NOT NULL, 
	quotas JSON NOT NULL, 
	cohort VARCHAR, 
	state VARCHAR(32) NOT NULL, 
	parent VARCHAR, 
	subpool_name VARCHAR, 
	weight INTEGER NOT NULL, 
	queueing VARCHAR(32) NOT NULL, 
	grace_s DOUBLE NOT NULL, 
	flavors JSON NOT NULL, 
	topology_keys JSON NOT NULL, 
	default_platform VARCHAR, 
	default_exit_actions JSON NOT NULL, 
	description TEXT NOT NULL, 
	CONSTRAINT pk_pools PRIMARY KEY (name), 
	CONSTRAINT ck_pools_canonical CHECK (parent IS NULL OR name = parent || '--' || subpool_name), 
	CONSTRAINT ck_pools_state CHECK (state IN ('ACTIVE', 'DELETING', 'ARCHIVED')), 
	CONSTRAINT ck_pools_delimiter CHECK (subpool_name NOT LIKE '%--%'), 
	CONSTRAINT ck_pools_both CHECK ((parent IS NULL) = (subpool_name IS NULL)), 
	CONSTRAINT fk_pools_parent FOREIGN KEY(parent) REFERENCES pools (name), 
	CONSTRAINT uq_pools_parent_subpool_name UNIQUE (parent, subpool_name)
);
INSERT INTO "pools" VALUES('team','{"h100/gpu":{"borrowing_limit":null,"lending_limit":0,"nominal":100},"h100/memory":{"borrowing_limit":null,"lending_limit":null,"nominal":9223372036854775807}}','research','ACTIVE',NULL,NULL,2,'STRICT_FIFO',12.5,'["h100","b200"]','[{"key":"zone","label":"topology.kubernetes.io/zone"},{"key":"rack","label":"rack"}]','h100','[["RESCHEDULE",137,143]]','the team''s own; ''quoted'', “quoted”');
INSERT INTO "pools" VALUES('old','{}',NULL,'ARCHIVED',NULL,NULL,1,'BEST_EFFORT_FIFO',30.0,'[]','[]',NULL,'[]','');
INSERT INTO "pools" VALUES('team--c','{"h100/gpu":{"borrowing_limit":null,"lending_limit":null,"nominal":20}}',NULL,'ARCHIVED','team','c',1,'BEST_EFFORT_FIFO',30.0,'[]','[]',NULL,'[]','');
INSERT INTO "pools" VALUES('team--b','{"h100/gpu":{"borrowing_limit":null,"lending_limit":null,"nominal":40}}',NULL,'DELETING','team','b',1,'BEST_EFFORT_FIFO',30.0,'[]','[]',NULL,'[]','');
INSERT INTO "pools" VALUES('team--a','{"h100/gpu":{"borrowing_limit":null,"lending_limit":null,"nominal":30}}',NULL,'ACTIVE','team','a',1,'BEST_EFFORT_FIFO',30.0,'[]','[]',NULL,'[]','');
CREATE TABLE specifications (
	hash VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	template TEXT NOT NULL, 
	spec JSON NOT NULL, 
	CONSTRAINT pk_specifications PRIMARY KEY (hash)
);
INSERT INTO "specifications" VALUES('hash-of-train','workflow:
  name: train
','workflow:
  name: {{name}}
','{"exec_timeout_s":3600.0,"groups":[{"barrier":true,"ignore_nonlead_status":true,"name":"prepare","tasks":[{"allow":[],"args":["--all"],"command":["fetch"],"count":null,"duration_s":null,"environment":{"A":"1","B":"2"},"exit_rules":[],"files":[],"image":"data:1","inputs":[],"lead":false,"min_count":null,"name":"fetch","platform":null,"requests":[]}],"upstream":[]},{"barrier":false,"ignore_nonlead_status":false,"name":"fit","tasks":[{"allow":["privileged"],"args":[],"command":["python","fit.py"],"count":4,"duration_s":60.5,"environment":{},"exit_rules":[["RESCHEDULE",1,9]],"files":[{"base64":false,"contents":"lr: 1","path":"/conf.yaml"},{"base64":true,"contents":"AAE=","path":"/blob"}],"image":"torch:2","inputs":["fetch"],"lead":true,"min_count":2,"name":"worker","platform":"h100","requests":[["cpu",4000],["gpu",8]]}],"upstream":["prepare"]}],"labels":{"project":"x"},"name":"train","priority":"LOW","queue_timeout_s":60.0}');
INSERT INTO "specifications" VALUES('hash-of-eval','workflow: {name: eval}','workflow: {name: eval}','{"exec_timeout_s":null,"groups":[{"barrier":true,"ignore_nonlead_status":true,"name":"run","tasks":[{"allow":[],"args":[],"command":["true"],"count":null,"duration_s":null,"environment":{},"exit_rules":[],"files":[],"image":"eval:1","inputs":[],"lead":false,"min_count":null,"name":"run","platform":null,"requests":[]}],"upstream":[]}],"labels":{},"name":"eval","priority":null,"queue_timeout_s":null}');
CREATE TABLE tasks (
	workflow VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	retry_id INTEGER NOT NULL, 
	"group" VARCHAR NOT NULL, 
	spec VARCHAR NOT NULL, 
	"index" INTEGER NOT NULL, 
	lead BOOLEAN NOT NULL, 
	status VARCHAR(32) NOT NULL, 
	node VARCHAR, 
	gpus JSON NOT NULL, 
	exit_code INTEGER, 
	failure_message TEXT NOT NULL, 
	start_time DATETIME, 
	end_time DATETIME, 
	restarting BOOLEAN NOT NULL, 
	CONSTRAINT pk_tasks PRIMARY KEY (workflow, name, retry_id), 
	CONSTRAINT fk_tasks_workflow_group FOREIGN KEY(workflow, "group") REFERENCES groups (workflow, name)
);
INSERT INTO "tasks" VALUES('train-1','worker',0,'fit','worker',0,0,'COMPLETED','n0','[0]',0,'',NULL,'2026-09-21 14:13:29.123457',0);
INSERT INTO "tasks" VALUES('train-2','fetch',0,'prepare','fetch',0,0,'COMPLETED',NULL,'[]',0,'','2026-09-21 14:13:22.123457','2026-09-21 14:13:22.623457',0);
INSERT INTO "tasks" VALUES('train-2','worker-0',0,'fit','worker-0',0,1,'RESCHEDULED',NULL,'[]',3006,'preempted',NULL,NULL,0);
INSERT INTO "tasks" VALUES('train-2','worker-0',1,'fit','worker-0',0,1,'RUNNING','n0','[0,1]',NULL,'','2026-09-21 14:13:24.123457',NULL,0);
INSERT INTO "tasks" VALUES('train-2','worker-1',1,'fit','worker',1,0,'INITIALIZING','n1','[]',NULL,'',NULL,NULL,1);
INSERT INTO "tasks" VALUES('eval-1','run',0,'run','run',0,0,'WAITING',NULL,'[]',NULL,'',NULL,NULL,0);
INSERT INTO "tasks" VALUES('train-4','worker-0',0,'fit','worker-0',0,0,'RUNNING','n1','[1]',NULL,'','2026-09-21 14:13:26.123457',NULL,0);
CREATE TABLE workflows (
	id VARCHAR NOT NULL, 
	uuid VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	pool VARCHAR NOT NULL, 
	priority VARCHAR(32) NOT NULL, 
	submitted_by VARCHAR NOT NULL, 
	submit_time DATETIME NOT NULL, 
	spec_hash VARCHAR NOT NULL, 
	status VARCHAR(32) NOT NULL, 
	labels JSON NOT NULL, 
	parent VARCHAR, 
	cancelled_by VARCHAR, 
	failure_message TEXT NOT NULL, 
	start_time DATETIME, 
	end_time DATETIME, 
	CONSTRAINT pk_workflows PRIMARY KEY (id), 
	CONSTRAINT fk_workflows_pool FOREIGN KEY(pool) REFERENCES pools (name), 
	CONSTRAINT fk_workflows_spec_hash FOREIGN KEY(spec_hash) REFERENCES specifications (hash), 
	CONSTRAINT uq_workflows_name_number UNIQUE (name, number), 
	CONSTRAINT uq_workflows_uuid UNIQUE (uuid)
);
INSERT INTO "workflows" VALUES('train-1','uuid-of-train-1','train',1,'team','NORMAL','alice','2026-09-21 14:13:21.123457','hash-of-train','COMPLETED','{}',NULL,NULL,'','2026-09-21 14:13:25.123457','2026-09-21 14:13:29.123458');
INSERT INTO "workflows" VALUES('train-2','uuid-of-train-2','train',2,'team','NORMAL','alice','2026-09-21 14:13:22.123457','hash-of-train','RUNNING','{"project":"x"}','train-1',NULL,'','2026-09-21 14:13:23.123457',NULL);
INSERT INTO "workflows" VALUES('eval-1','uuid-of-eval-1','eval',1,'team--a','NORMAL','bob','2026-09-21 14:13:21.123457','hash-of-eval','PENDING','{}',NULL,NULL,'',NULL,NULL);
INSERT INTO "workflows" VALUES('eval-2','uuid-of-eval-2','eval',2,'team','NORMAL','bob','2026-09-21 14:13:22.123457','hash-of-eval','FAILED_CANCELED','{}',NULL,'carol','no longer needed',NULL,'2026-09-21 14:13:27.123457');
INSERT INTO "workflows" VALUES('train-3','uuid-of-train-3','train',3,'team--a','HIGH','alice','2026-09-21 14:13:23.123457','hash-of-train','PENDING','{}',NULL,NULL,'',NULL,NULL);
INSERT INTO "workflows" VALUES('train-4','uuid-of-train-4','train',4,'team--b','LOW','alice','2026-09-21 14:13:24.123457','hash-of-train','RUNNING','{}',NULL,NULL,'','2026-09-21 14:13:26.123457',NULL);
CREATE INDEX ix_workflows_pool_status_submit_time ON workflows (pool, status, submit_time);
CREATE INDEX ix_workflows_pool_submit_time ON workflows (pool, submit_time);
CREATE INDEX ix_workflows_status_submit_time ON workflows (status, submit_time);
CREATE INDEX ix_workflows_submit_time ON workflows (submit_time);
CREATE INDEX ix_workflows_submitted_by_submit_time ON workflows (submitted_by, submit_time);
CREATE INDEX ix_gangs_workflow ON gangs (workflow);
CREATE INDEX ix_events_pool_revision_seq ON events (pool, revision, seq);
CREATE INDEX ix_events_workflow_revision_seq ON events (workflow, revision, seq);
COMMIT;
