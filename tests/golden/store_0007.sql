BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
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
)
 WITHOUT ROWID

;
INSERT INTO "candidate_parents" VALUES('08390a7bf88e5585',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('0f122c8f94616e79',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('1266a7384ecef46d',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('132935f0cf03d427',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('1bec80e7d9f98980',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('394f9decaa89a0ad',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('46fa95da0becb6b3',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('5ee966e0e55aa692',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('693ef32eead2a613',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('7ee8ed3c4ca93394',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('8f54bcb08b45f95b',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('9998f4b6d8f7ad95',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('bb75f1a11f2be7d3',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('c91455c740e76c74',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('df5b5b0aaced73cd',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "candidate_parents" VALUES('f585689d6fddd9ba',0,'e2402cbca3d9d7ca','parent');
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
	executed BOOLEAN NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id, position) REFERENCES tells (run_id, position), 
	CONSTRAINT candidates_in_order UNIQUE (run_id, position, slot), 
	FOREIGN KEY(prompt_id) REFERENCES prompts (id), 
	FOREIGN KEY(rollout_id) REFERENCES rollouts (id), 
	FOREIGN KEY(program_id) REFERENCES programs (id), 
	FOREIGN KEY(evaluation_id) REFERENCES evaluations (id)
);
INSERT INTO "candidates" VALUES('8757ca6fc4616b6d','older',0,0,'fd3bf41b5e3d2dda',NULL,'parsed','e2402cbca3d9d7ca',NULL,NULL,NULL,'def solve(name):
    return name
','4391e8235bb9a098',1,'');
INSERT INTO "candidates" VALUES('c4868bb81e25f0ba','older',1,0,'6ebc61a216f3c79a','210eb5df350e0c37','parsed','c6e710cf03e85812',NULL,NULL,NULL,'x0.rpartition('', '')[0]','22b203725f0e04d6',1,'');
INSERT INTO "candidates" VALUES('3c60690c62db23a6','older',2,0,'6ebc61a216f3c79a','2952b83759db2810','parsed','8c3d4d19396ef300',NULL,NULL,NULL,'x0 + ''_'' + x0.split()[-1] if x0[:2].isdigit() else x0.split('', '')[1]','3b5f035741f5f9d2',1,'');
INSERT INTO "candidates" VALUES('38c548e65f3d5f39','older',3,0,'6ebc61a216f3c79a','0dbd19b5a1ecedd0','parsed','826c5b2d78f2e338',NULL,NULL,NULL,'x0 if x0[:2].isupper() else x0 + ''@''','547da66979f01cc2',1,'');
INSERT INTO "candidates" VALUES('36028dba522369a9','older',4,0,'6ebc61a216f3c79a','5cee76142fc558bc','parsed','79609559d908db1c',NULL,NULL,NULL,'x0.lower()[2].replace('' '', ''|'')','abb2a5d82e00ebe2',1,'');
INSERT INTO "candidates" VALUES('f64a9d710d90c24d','older',5,0,'e8829c150abe44c3','2ec2c2e2521b3122','parsed','cd19f3a986b2b5c7',NULL,NULL,NULL,'x0[1:-3].strip()','80b814c6203d8e3a',1,'');
INSERT INTO "candidates" VALUES('71a6cbef3094e7f7','older',6,0,'e8829c150abe44c3','6ca76e51a22bdabb','parsed','48414e661080ef69',NULL,NULL,NULL,'x0.partition('','')[2][0]','0c9973c1fc1122f6',1,'');
INSERT INTO "candidates" VALUES('59bda04c725cd649','older',7,0,'e8829c150abe44c3','c627e492577987ae','parsed','15185b97ca33e544',NULL,NULL,NULL,'x0.rpartition('' '')[2].rstrip('','') if int(x0) == 99 else x0.rpartition('' '')[2] if x0.split()[0].isdigit() else x0.split()[1].title()','f91baf20416d66a0',1,'');
INSERT INTO "candidates" VALUES('e58b93208e5c28e1','older',8,0,'e8829c150abe44c3','9a2134b87818396e','parsed','fe48db5538436317',NULL,NULL,NULL,'''@'' if len(x0) < 13 else x0','9247f8add92797cf',1,'');
INSERT INTO "candidates" VALUES('f585689d6fddd9ba','older',9,0,'b9d42a855e795811','dfb8ec98c6406ead','parsed','51d5423716ad080b',NULL,NULL,NULL,'x0.partition('', '')[2].title()','6452e4d29fce000a',1,'');
INSERT INTO "candidates" VALUES('df5b5b0aaced73cd','older',10,0,'b9d42a855e795811','c7e46a9eb1301462','parsed','d7b58e26621518ab',NULL,NULL,NULL,'re.findall(''\\d{2}'', x0)[1] if x0.startswith('' '') else x0.split('', '')[0]','ff21506846be4269',1,'');
INSERT INTO "candidates" VALUES('08390a7bf88e5585','older',11,0,'b9d42a855e795811','5930621be862c4b6','parsed','68f59d78669efef5',NULL,NULL,NULL,'x0.partition('','')[0][:3]','821f75e09a62f9a6',1,'');
INSERT INTO "candidates" VALUES('1266a7384ecef46d','older',12,0,'b9d42a855e795811','dd80c12b5367862f','parsed','e79967d9c964ea9d',NULL,NULL,NULL,'x0.split('', '')[1]','22a190a5d2d6f126',1,'');
INSERT INTO "candidates" VALUES('f9a9ce6f7a285915','older',13,0,'4d421f2d5194afe0','43bffadbdb5d6443','parsed','16663e66b79c8184',NULL,NULL,NULL,'x0.split()[1] if x0.endswith('','') else x0.rpartition(''A'')[0] + ''_'' + x0 + '','' if x0.startswith('','') else x0.split('', '')[-1][0] + ''(''','2a3a9e132a10bc2a',1,'');
INSERT INTO "candidates" VALUES('09565998202b410a','older',14,0,'4d421f2d5194afe0','4a482436764f1457','parsed','eae259a8b2b4cd7e',NULL,NULL,NULL,'x0.split('','')[1] + ''|''','b14645f18dd64547',1,'');
INSERT INTO "candidates" VALUES('1accbc3d12faa728','older',15,0,'4d421f2d5194afe0','87015676a11b440e','parsed','18d88c07a0851481',NULL,NULL,NULL,'x0.partition('' '')[0].rpartition('' '')[0] if x0.startswith('' '') else x0.partition('' '')[2]','601fb7b1ce397d86',1,'');
INSERT INTO "candidates" VALUES('90288e009a30a3ef','older',16,0,'4d421f2d5194afe0','e63925658ef05177','parsed','f00293f36316f30a',NULL,NULL,NULL,'x0.partition('', '')[2].lower() if '':'' in x0 else re.sub(''[^A-Za-z]'', '''', x0).lstrip('' '')','f8de4180a6578457',1,'');
INSERT INTO "candidates" VALUES('1bec80e7d9f98980','older',17,0,'a9c8b52207f00b80','bf9d65b28e25ca10','parsed','660d858f3e64d687',NULL,NULL,NULL,'x0.split()[-1].upper() + '' caa-'' + x0','cc04a0ce41e2d902',1,'');
INSERT INTO "candidates" VALUES('46fa95da0becb6b3','older',18,0,'a9c8b52207f00b80','a86dc56b9c048ba2','parsed','f4bf7523020efacc',NULL,NULL,NULL,'x0.partition('','')[0].lower() + ''&'' + x0.split()[2][0] if '', '' in x0 else re.sub(''[^A-Za-z0-9]'', '''', x0)[0]','0c1cf3301522b9ee',1,'');
INSERT INTO "candidates" VALUES('5ee966e0e55aa692','older',19,0,'a9c8b52207f00b80','8748ee542f106149','parsed','57c72fea65025f48',NULL,NULL,NULL,'re.findall(''[A-Z]+'', x0.replace('','', ''-''))[0] if x0.endswith('', '') else x0[:-5].capitalize()','1e0f90ec68e6d88f',1,'');
INSERT INTO "candidates" VALUES('bb75f1a11f2be7d3','older',20,0,'a9c8b52207f00b80','c1ceb9b438d13766','parsed','7ef78ab4b71dd940',NULL,NULL,NULL,'re.sub(''\\d+$'', '''', x0) + ''pcd.''','c33c6a0870b44f01',1,'');
INSERT INTO "candidates" VALUES('2e06802a727f5b29','older',21,0,'de22fbec56a06062','3ebcbb2dadc607c8','parsed','a825f4c201599645',NULL,NULL,NULL,'x0.split('', '')[0] if x0.isdigit() else x0.split('' '')[0] + ''@'' + x0.partition('', '')[2].upper()','78ce28fc944e8b60',1,'');
INSERT INTO "candidates" VALUES('3852325576bc865e','older',22,0,'de22fbec56a06062','60db1b60f5937484','parsed','61e7fc299ec57a8f',NULL,NULL,NULL,'(''_'' + x0.split('','')[0] + x0.partition('','')[2][0] + '')'' + x0).strip('','') if x0[-1].islower() else x0','0d7e5c3209e0b238',1,'');
INSERT INTO "candidates" VALUES('36b6721a21e62fcd','older',23,0,'de22fbec56a06062','fcb9da40a4a5fb72','parsed','6996d5d057cd3bfe',NULL,NULL,NULL,'x0.split('', '')[1][:2] if '' '' in x0 else ''|''','5b2af009b0282cf8',1,'');
INSERT INTO "candidates" VALUES('11701dc11c18a64c','older',24,0,'de22fbec56a06062','587ee9d684c03ebf','parsed','bfae666eee66f0da',NULL,NULL,NULL,'x0[0]','e1bdde7b5251430d',1,'');
INSERT INTO "candidates" VALUES('c8217c06c8049e80','older',25,0,'b60190f2246e0a50','ae32662ebe6f6be1','parsed','a48549cab2757362',NULL,NULL,NULL,'x0.replace('' '', ''.'').upper()','04c1b5854291ee51',1,'');
INSERT INTO "candidates" VALUES('2278cb8577083a89','older',26,0,'b60190f2246e0a50','d3b61f63eb512c2a','parsed','05b81dcd662d7a7d',NULL,NULL,NULL,'x0.split('','')[2] if x0.endswith("''") else ''|''','aae77b98c926e9db',1,'');
INSERT INTO "candidates" VALUES('5d7a9d429a8840b4','older',27,0,'b60190f2246e0a50','4edb4b011f33c057','parsed','684756661cb7b71f',NULL,NULL,NULL,'re.sub(''\\D'', '''', x0)[0]','0aa635aba341a9e3',1,'');
INSERT INTO "candidates" VALUES('f9620e5d4d0edc64','older',28,0,'b60190f2246e0a50','9b2a8290ab4d1398','parsed','dcaa6ca9ec6b8c5a',NULL,NULL,NULL,'(x0.split()[1][0] if ''€'' in x0 else x0) + (''_'' + x0.partition('' '')[2] + x0.split('' '')[0][0])','dfcec759db3de8e0',1,'');
INSERT INTO "candidates" VALUES('8f54bcb08b45f95b','older',29,0,'844abf52af49ae71','15198bf0893caeeb','parsed','a0e4ec71ff44bcc9',NULL,NULL,NULL,'x0.title().lower()','a7c204bd7412c93c',1,'');
INSERT INTO "candidates" VALUES('693ef32eead2a613','older',30,0,'844abf52af49ae71','f6a8db5bce757f7a','parsed','c1313b8e7cf6299b',NULL,NULL,NULL,'x0.rpartition('', '')[0].rstrip('','') + ''0'' + re.findall(''[a-z]+'', x0)[1]','ac35e8eb419d2b88',1,'');
INSERT INTO "candidates" VALUES('394f9decaa89a0ad','older',31,0,'844abf52af49ae71','eb02629e079a0121','parsed','4df538527205f653',NULL,NULL,NULL,'re.sub(''\\s+'', '''', x0.replace('', '', ''''))','4277861bd6547ca4',1,'');
INSERT INTO "candidates" VALUES('0f122c8f94616e79','older',32,0,'844abf52af49ae71','a702f586faeba697','parsed','8106703173a59b14',NULL,NULL,NULL,'x0 + '','' + x0.rpartition('', '')[0] + ''*'' if x0[:1].isdigit() else x0.partition('' '')[0].upper()','5531a066d6b44387',1,'');
INSERT INTO "candidates" VALUES('c8d1aa50c2ecd9da','older',33,0,'02870d458806eb14','67e0d48df83aff85','parsed','75a7b1710a3a0bb0',NULL,NULL,NULL,'x0.split(''%'')[1]','b5842f0df5e5c1cc',1,'');
INSERT INTO "candidates" VALUES('02c2480aa5434bc1','older',34,0,'02870d458806eb14','2cf05bf038d80a46','parsed','2b44ad35b6dff51c',NULL,NULL,NULL,'x0 + ''1'' + x0.rpartition('', '')[0][0] + re.sub(''[A-Z]'', '''', x0)[5:] + ''$''','684cb8c5d4e78731',1,'');
INSERT INTO "candidates" VALUES('b8e0a642011e1a24','older',35,0,'02870d458806eb14','0619e15e6b67cdb3','parsed','cac3c841768439fc',NULL,NULL,NULL,'x0 + re.findall(''\\d+\\.\\d+'', x0)[1].lower()','24437f6d8c2663c7',1,'');
INSERT INTO "candidates" VALUES('990cb97173ea8259','older',36,0,'02870d458806eb14','9394f16c5ffcb8d7','parsed','11db810c4d08a174',NULL,NULL,NULL,'x0 if '' '' not in x0 else x0.partition('' '')[2].rpartition('','')[2][0]','d972dc490112821a',1,'');
INSERT INTO "candidates" VALUES('7ee8ed3c4ca93394','older',37,0,'5ef401a7ba1e6cea','f126866d1b5d863c','parsed','7e323fc0e7484c80',NULL,NULL,NULL,'x0.partition('' '')[2] if x0.startswith('','') else x0.partition('' - '')[0]','5fdc5c9cfd988242',1,'');
INSERT INTO "candidates" VALUES('c91455c740e76c74','older',38,0,'5ef401a7ba1e6cea','8fbb117b20117b3d','parsed','33321663486dea26',NULL,NULL,NULL,'x0 if x0[:3].isdigit() else x0.split('','')[0].capitalize()','488f6e556cc2a7c0',1,'');
INSERT INTO "candidates" VALUES('9998f4b6d8f7ad95','older',39,0,'5ef401a7ba1e6cea','fcf6689ab4177512','parsed','08de111f7e41ee38',NULL,NULL,NULL,'x0.rpartition('','')[2][4:5]','f4ef0bf073009449',1,'');
INSERT INTO "candidates" VALUES('132935f0cf03d427','older',40,0,'5ef401a7ba1e6cea','aa3125cdd962d044','parsed','cbaa35055d8cd50d',NULL,NULL,NULL,'x0.split('' '')[2].capitalize()','6f701e1eda017e86',1,'');
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
	digest VARCHAR(32) NOT NULL, 
	metrics TEXT, 
	trust VARCHAR(32) NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT evaluations_once UNIQUE (problem_version, program_id, private_to), 
	FOREIGN KEY(program_id) REFERENCES programs (id)
);
INSERT INTO "evaluations" VALUES('4391e8235bb9a098','names-1','e2402cbca3d9d7ca','','ok','',2.3664626300069357967e-01,'bwrap+landlock+seccomp','["Lovelace, Ada","Turing, Alan","Hopper, Grace","Plato","Sappho","Homer"]','540d70bccb9ebc40',NULL,'high');
INSERT INTO "evaluations" VALUES('22b203725f0e04d6','names-1','c6e710cf03e85812','','ok','',5.38492566999593691434e-01,'bwrap+landlock+seccomp','["Lovelace","Turing","Hopper","","",""]','77ca5022f3d17011',NULL,'high');
INSERT INTO "evaluations" VALUES('3b5f035741f5f9d2','names-1','8c3d4d19396ef300','','ok','row-4: IndexError: list index out of range',1.60062672000094607938e-01,'bwrap+landlock+seccomp','["Ada","Alan","Grace",null,null,null]','f598e69aaf131e30',NULL,'high');
INSERT INTO "evaluations" VALUES('547da66979f01cc2','names-1','826c5b2d78f2e338','','ok','',1.55435298999691440258e-01,'bwrap+landlock+seccomp','["Lovelace, Ada@","Turing, Alan@","Hopper, Grace@","Plato@","Sappho@","Homer@"]','4363c7e599c3762b',NULL,'high');
INSERT INTO "evaluations" VALUES('abb2a5d82e00ebe2','names-1','79609559d908db1c','','ok','',1.00109504000101878773e-01,'bwrap+landlock+seccomp','["v","r","p","a","p","m"]','1da49501550be417',NULL,'high');
INSERT INTO "evaluations" VALUES('0c9973c1fc1122f6','names-1','48414e661080ef69','','ok','row-4: IndexError: string index out of range',9.82321950004916288889e-02,'bwrap+landlock+seccomp','[" "," "," ",null,null,null]','2e813c75d8b2d996',NULL,'high');
INSERT INTO "evaluations" VALUES('80b814c6203d8e3a','names-1','cd19f3a986b2b5c7','','ok','',1.28049723000003723427e-01,'bwrap+landlock+seccomp','["ovelace,","uring, A","opper, Gr","l","ap","o"]','8595945731d6d1f3',NULL,'high');
INSERT INTO "evaluations" VALUES('9247f8add92797cf','names-1','fe48db5538436317','','ok','',4.32086250999418552964e-01,'bwrap+landlock+seccomp','["Lovelace, Ada","@","Hopper, Grace","@","@","@"]','68b354a8fa6c6562',NULL,'high');
INSERT INTO "evaluations" VALUES('f91baf20416d66a0','names-1','15185b97ca33e544','','error','row-1: ValueError: invalid literal for int() with base 10: ''Lovelace, Ada''',1.84058283000013034325e-01,'bwrap+landlock+seccomp',NULL,'7dd2e423127ff75b',NULL,'high');
INSERT INTO "evaluations" VALUES('22a190a5d2d6f126','names-1','e79967d9c964ea9d','','ok','row-4: IndexError: list index out of range',1.80039905000739963725e-01,'bwrap+landlock+seccomp','["Ada","Alan","Grace",null,null,null]','f598e69aaf131e30',NULL,'high');
INSERT INTO "evaluations" VALUES('6452e4d29fce000a','names-1','51d5423716ad080b','','ok','',1.46237848000055237207e-01,'bwrap+landlock+seccomp','["Ada","Alan","Grace","","",""]','f62c92eb45a2301f',NULL,'high');
INSERT INTO "evaluations" VALUES('821f75e09a62f9a6','names-1','68f59d78669efef5','','ok','',7.79209259999333880841e-02,'bwrap+landlock+seccomp','["Lov","Tur","Hop","Pla","Sap","Hom"]','99f9c92bef463c23',NULL,'high');
INSERT INTO "evaluations" VALUES('ff21506846be4269','names-1','d7b58e26621518ab','','ok','',8.81122239998148870654e-02,'bwrap+landlock+seccomp','["Lovelace","Turing","Hopper","Plato","Sappho","Homer"]','fe62d0cdb001df39',NULL,'high');
INSERT INTO "evaluations" VALUES('2a3a9e132a10bc2a','names-1','16663e66b79c8184','','ok','',7.90284220001922221854e-02,'bwrap+landlock+seccomp','["A(","A(","G(","P(","S(","H("]','3f8c4aa1575c5761',NULL,'high');
INSERT INTO "evaluations" VALUES('601fb7b1ce397d86','names-1','18d88c07a0851481','','ok','',1.36090476999925158452e-01,'bwrap+landlock+seccomp','["Ada","Alan","Grace","","",""]','f62c92eb45a2301f',NULL,'high');
INSERT INTO "evaluations" VALUES('b14645f18dd64547','names-1','eae259a8b2b4cd7e','','ok','row-4: IndexError: list index out of range',1.3608187400041060755e-01,'bwrap+landlock+seccomp','[" Ada|"," Alan|"," Grace|",null,null,null]','37fa3e6f8fa43faf',NULL,'high');
INSERT INTO "evaluations" VALUES('f8de4180a6578457','names-1','f00293f36316f30a','','ok','',1.8811393699979817029e-01,'bwrap+landlock+seccomp','["LovelaceAda","TuringAlan","HopperGrace","Plato","Sappho","Homer"]','b3f6754f1301d8f4',NULL,'high');
INSERT INTO "evaluations" VALUES('0c1cf3301522b9ee','names-1','f4bf7523020efacc','','ok','row-1: IndexError: list index out of range',1.88071354000385326799e-01,'bwrap+landlock+seccomp','[null,null,null,"P","S","H"]','c0fd2a7583e10103',NULL,'high');
INSERT INTO "evaluations" VALUES('1e0f90ec68e6d88f','names-1','57c72fea65025f48','','ok','',9.20876980007960810326e-02,'bwrap+landlock+seccomp','["Lovelace","Turing,","Hopper, ","","S",""]','27ddb52a290c059a',NULL,'high');
INSERT INTO "evaluations" VALUES('c33c6a0870b44f01','names-1','7ef78ab4b71dd940','','ok','',1.80084750999412790406e-01,'bwrap+landlock+seccomp','["Lovelace, Adapcd.","Turing, Alanpcd.","Hopper, Gracepcd.","Platopcd.","Sapphopcd.","Homerpcd."]','53d23a3a868ca7f6',NULL,'high');
INSERT INTO "evaluations" VALUES('cc04a0ce41e2d902','names-1','660d858f3e64d687','','ok','',5.68113022999568784143e-01,'bwrap+landlock+seccomp','["ADA caa-Lovelace, Ada","ALAN caa-Turing, Alan","GRACE caa-Hopper, Grace","PLATO caa-Plato","SAPPHO caa-Sappho","HOMER caa-Homer"]','4f31682b1704fc0d',NULL,'high');
INSERT INTO "evaluations" VALUES('0d7e5c3209e0b238','names-1','61e7fc299ec57a8f','','ok','row-4: IndexError: string index out of range',1.43555364000349072739e-01,'bwrap+landlock+seccomp','["_Lovelace )Lovelace, Ada","_Turing )Turing, Alan","_Hopper )Hopper, Grace",null,null,null]','8b0314978a09adb7',NULL,'high');
INSERT INTO "evaluations" VALUES('5b2af009b0282cf8','names-1','6996d5d057cd3bfe','','ok','',1.32086178999998082872e-01,'bwrap+landlock+seccomp','["Ad","Al","Gr","|","|","|"]','14c9990a0413f0e2',NULL,'high');
INSERT INTO "evaluations" VALUES('78ce28fc944e8b60','names-1','a825f4c201599645','','ok','',0.0998273839995818,'bwrap+landlock+seccomp','["Lovelace,@ADA","Turing,@ALAN","Hopper,@GRACE","Plato@","Sappho@","Homer@"]','af3d1cc6d6bca406',NULL,'high');
INSERT INTO "evaluations" VALUES('e1bdde7b5251430d','names-1','bfae666eee66f0da','','ok','',1.40090277999661338981e-01,'bwrap+landlock+seccomp','["L","T","H","P","S","H"]','f9600f1c8f6eb663',NULL,'high');
INSERT INTO "evaluations" VALUES('04c1b5854291ee51','names-1','a48549cab2757362','','ok','',7.60773279998829821124e-02,'bwrap+landlock+seccomp','["LOVELACE,.ADA","TURING,.ALAN","HOPPER,.GRACE","PLATO","SAPPHO","HOMER"]','af22fb741034d94c',NULL,'high');
INSERT INTO "evaluations" VALUES('0aa635aba341a9e3','names-1','684756661cb7b71f','','error','row-1: IndexError: string index out of range',1.2811274700015928829e-01,'bwrap+landlock+seccomp',NULL,'9bf9cac5c8986202',NULL,'high');
INSERT INTO "evaluations" VALUES('aae77b98c926e9db','names-1','05b81dcd662d7a7d','','ok','',1.72100382000280660577e-01,'bwrap+landlock+seccomp','["|","|","|","|","|","|"]','95b69759b7bb2f1f',NULL,'high');
INSERT INTO "evaluations" VALUES('dfcec759db3de8e0','names-1','dcaa6ca9ec6b8c5a','','ok','',1.76118078999934368766e-01,'bwrap+landlock+seccomp','["Lovelace, Ada_AdaL","Turing, Alan_AlanT","Hopper, Grace_GraceH","Plato_P","Sappho_S","Homer_H"]','b8704992c97d41db',NULL,'high');
INSERT INTO "evaluations" VALUES('4277861bd6547ca4','names-1','4df538527205f653','','ok','',1.52082630000222707167e-01,'bwrap+landlock+seccomp','["LovelaceAda","TuringAlan","HopperGrace","Plato","Sappho","Homer"]','b3f6754f1301d8f4',NULL,'high');
INSERT INTO "evaluations" VALUES('5531a066d6b44387','names-1','8106703173a59b14','','ok','',1.48108876999685890041e-01,'bwrap+landlock+seccomp','["LOVELACE,","TURING,","HOPPER,","PLATO","SAPPHO","HOMER"]','d11c3edf787f901a',NULL,'high');
INSERT INTO "evaluations" VALUES('a7c204bd7412c93c','names-1','a0e4ec71ff44bcc9','','ok','',1.36087582000072870869e-01,'bwrap+landlock+seccomp','["lovelace, ada","turing, alan","hopper, grace","plato","sappho","homer"]','7b12bbb314faa06a',NULL,'high');
INSERT INTO "evaluations" VALUES('ac35e8eb419d2b88','names-1','c1313b8e7cf6299b','','ok','row-4: IndexError: list index out of range',2.52044073000433854758e-01,'bwrap+landlock+seccomp','["Lovelace0da","Turing0lan","Hopper0race",null,null,null]','853cc6a049d6a713',NULL,'high');
INSERT INTO "evaluations" VALUES('24437f6d8c2663c7','names-1','cac3c841768439fc','','error','row-1: IndexError: list index out of range',1.36091948000284901354e-01,'bwrap+landlock+seccomp',NULL,'13e700c8051f05be',NULL,'high');
INSERT INTO "evaluations" VALUES('684cb8c5d4e78731','names-1','2b44ad35b6dff51c','','ok','row-4: IndexError: string index out of range',1.12116037000305368565e-01,'bwrap+landlock+seccomp','["Lovelace, Ada1Lce, da$","Turing, Alan1T, lan$","Hopper, Grace1H, race$",null,null,null]','28001cf3bb254053',NULL,'high');
INSERT INTO "evaluations" VALUES('b5842f0df5e5c1cc','names-1','75a7b1710a3a0bb0','','error','row-1: IndexError: list index out of range',1.0008261299935838906e-01,'bwrap+landlock+seccomp',NULL,'13e700c8051f05be',NULL,'high');
INSERT INTO "evaluations" VALUES('d972dc490112821a','names-1','11db810c4d08a174','','ok','',1.16271949999827484134e-01,'bwrap+landlock+seccomp','["A","A","G","Plato","Sappho","Homer"]','f3f74d067e823246',NULL,'high');
INSERT INTO "evaluations" VALUES('488f6e556cc2a7c0','names-1','33321663486dea26','','ok','',9.20997670000360812991e-02,'bwrap+landlock+seccomp','["Lovelace","Turing","Hopper","Plato","Sappho","Homer"]','fe62d0cdb001df39',NULL,'high');
INSERT INTO "evaluations" VALUES('5fdc5c9cfd988242','names-1','7e323fc0e7484c80','','ok','',1.60061780999967595562e-01,'bwrap+landlock+seccomp','["Lovelace, Ada","Turing, Alan","Hopper, Grace","Plato","Sappho","Homer"]','540d70bccb9ebc40',NULL,'high');
INSERT INTO "evaluations" VALUES('6f701e1eda017e86','names-1','cbaa35055d8cd50d','','error','row-1: IndexError: list index out of range',1.50228845999663462862e-01,'bwrap+landlock+seccomp',NULL,'13e700c8051f05be',NULL,'high');
INSERT INTO "evaluations" VALUES('f4ef0bf073009449','names-1','08de111f7e41ee38','','ok','',1.25421559999267628882e-01,'bwrap+landlock+seccomp','["","n","c","o","h","r"]','ff2794f8b4ecb48b',NULL,'high');
CREATE TABLE objectives (
	problem_id VARCHAR(255) NOT NULL, 
	problem_version VARCHAR(255) NOT NULL, 
	objective INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	description TEXT NOT NULL, 
	PRIMARY KEY (problem_id, problem_version, objective), 
	FOREIGN KEY(problem_id, problem_version) REFERENCES problems (id, version)
);
INSERT INTO "objectives" VALUES('names','names-1',0,'row-1','');
INSERT INTO "objectives" VALUES('names','names-1',1,'row-2','');
INSERT INTO "objectives" VALUES('names','names-1',2,'row-3','');
INSERT INTO "objectives" VALUES('names','names-1',3,'row-4','');
INSERT INTO "objectives" VALUES('names','names-1',4,'row-5','');
INSERT INTO "objectives" VALUES('names','names-1',5,'row-6','');
CREATE TABLE policy_events (
	number INTEGER NOT NULL, 
	policy_version INTEGER, 
	kind VARCHAR(32) NOT NULL, 
	detail TEXT NOT NULL, 
	at VARCHAR(64) NOT NULL, 
	training_id VARCHAR(255), 
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
INSERT INTO "problems" VALUES('names','names-1','First name first.','solve','{"id":"names","version":"names-1","statement":"First name first.","entry":"solve","parameters":["name"],"objectives":[{"name":"row-1","description":""},{"name":"row-2","description":""},{"name":"row-3","description":""},{"name":"row-4","description":""},{"name":"row-5","description":""},{"name":"row-6","description":""}],"seeds":[{"source":"def solve(name):\n    return name\n","id":"e2402cbca3d9d7ca"}],"limits":{"wall_seconds":5.0,"cpu_seconds":5,"memory_mb":128,"result_bytes":1048576,"log_bytes":65536,"open_files":64,"stack_mb":64,"threads":0,"processes":0,"disk_mb":64},"train":[{"inputs":["Lovelace, Ada"],"output":"Ada Lovelace"},{"inputs":["Turing, Alan"],"output":"Alan Turing"},{"inputs":["Hopper, Grace"],"output":"Grace Hopper"},{"inputs":["Plato"],"output":"PLATO"},{"inputs":["Sappho"],"output":"SAPPHO"},{"inputs":["Homer"],"output":"HOMER"}],"heldout":[{"inputs":["Noether, Emmy"],"output":"Emmy Noether"},{"inputs":["Euclid"],"output":"EUCLID"}],"scorer_path":null,"features":[],"folder":null,"groups":[],"suffix":".py","evaluator":null,"partial":"","validation":[]}');
CREATE TABLE programs (
	id VARCHAR(255) NOT NULL, 
	source TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "programs" VALUES('e2402cbca3d9d7ca','def solve(name):
    return name
');
INSERT INTO "programs" VALUES('79609559d908db1c','def solve(name):
    return name.lower()[2].replace('' '', ''|'')
');
INSERT INTO "programs" VALUES('826c5b2d78f2e338','def solve(name):
    return name if name[:2].isupper() else name + ''@''
');
INSERT INTO "programs" VALUES('8c3d4d19396ef300','def solve(name):
    return name + ''_'' + name.split()[-1] if name[:2].isdigit() else name.split('', '')[1]
');
INSERT INTO "programs" VALUES('c6e710cf03e85812','def solve(name):
    return name.rpartition('', '')[0]
');
INSERT INTO "programs" VALUES('15185b97ca33e544','def solve(name):
    return name.rpartition('' '')[2].rstrip('','') if int(name) == 99 else name.rpartition('' '')[2] if name.split()[0].isdigit() else name.split()[1].title()
');
INSERT INTO "programs" VALUES('48414e661080ef69','def solve(name):
    return name.partition('','')[2][0]
');
INSERT INTO "programs" VALUES('cd19f3a986b2b5c7','def solve(name):
    return name[1:-3].strip()
');
INSERT INTO "programs" VALUES('fe48db5538436317','def solve(name):
    return ''@'' if len(name) < 13 else name
');
INSERT INTO "programs" VALUES('51d5423716ad080b','def solve(name):
    return name.partition('', '')[2].title()
');
INSERT INTO "programs" VALUES('68f59d78669efef5','def solve(name):
    return name.partition('','')[0][:3]
');
INSERT INTO "programs" VALUES('d7b58e26621518ab','import re


def solve(name):
    return re.findall(''\\d{2}'', name)[1] if name.startswith('' '') else name.split('', '')[0]
');
INSERT INTO "programs" VALUES('e79967d9c964ea9d','def solve(name):
    return name.split('', '')[1]
');
INSERT INTO "programs" VALUES('16663e66b79c8184','def solve(name):
    return name.split()[1] if name.endswith('','') else name.rpartition(''A'')[0] + ''_'' + name + '','' if name.startswith('','') else name.split('', '')[-1][0] + ''(''
');
INSERT INTO "programs" VALUES('18d88c07a0851481','def solve(name):
    return name.partition('' '')[0].rpartition('' '')[0] if name.startswith('' '') else name.partition('' '')[2]
');
INSERT INTO "programs" VALUES('eae259a8b2b4cd7e','def solve(name):
    return name.split('','')[1] + ''|''
');
INSERT INTO "programs" VALUES('f00293f36316f30a','import re


def solve(name):
    return name.partition('', '')[2].lower() if '':'' in name else re.sub(''[^A-Za-z]'', '''', name).lstrip('' '')
');
INSERT INTO "programs" VALUES('57c72fea65025f48','import re


def solve(name):
    return re.findall(''[A-Z]+'', name.replace('','', ''-''))[0] if name.endswith('', '') else name[:-5].capitalize()
');
INSERT INTO "programs" VALUES('660d858f3e64d687','def solve(name):
    return name.split()[-1].upper() + '' caa-'' + name
');
INSERT INTO "programs" VALUES('7ef78ab4b71dd940','import re


def solve(name):
    return re.sub(''\\d+$'', '''', name) + ''pcd.''
');
INSERT INTO "programs" VALUES('f4bf7523020efacc','import re


def solve(name):
    return name.partition('','')[0].lower() + ''&'' + name.split()[2][0] if '', '' in name else re.sub(''[^A-Za-z0-9]'', '''', name)[0]
');
INSERT INTO "programs" VALUES('61e7fc299ec57a8f','def solve(name):
    return (''_'' + name.split('','')[0] + name.partition('','')[2][0] + '')'' + name).strip('','') if name[-1].islower() else name
');
INSERT INTO "programs" VALUES('6996d5d057cd3bfe','def solve(name):
    return name.split('', '')[1][:2] if '' '' in name else ''|''
');
INSERT INTO "programs" VALUES('a825f4c201599645','def solve(name):
    return name.split('', '')[0] if name.isdigit() else name.split('' '')[0] + ''@'' + name.partition('', '')[2].upper()
');
INSERT INTO "programs" VALUES('bfae666eee66f0da','def solve(name):
    return name[0]
');
INSERT INTO "programs" VALUES('05b81dcd662d7a7d','def solve(name):
    return name.split('','')[2] if name.endswith("''") else ''|''
');
INSERT INTO "programs" VALUES('684756661cb7b71f','import re


def solve(name):
    return re.sub(''\\D'', '''', name)[0]
');
INSERT INTO "programs" VALUES('a48549cab2757362','def solve(name):
    return name.replace('' '', ''.'').upper()
');
INSERT INTO "programs" VALUES('dcaa6ca9ec6b8c5a','def solve(name):
    return (name.split()[1][0] if ''€'' in name else name) + (''_'' + name.partition('' '')[2] + name.split('' '')[0][0])
');
INSERT INTO "programs" VALUES('4df538527205f653','import re


def solve(name):
    return re.sub(''\\s+'', '''', name.replace('', '', ''''))
');
INSERT INTO "programs" VALUES('8106703173a59b14','def solve(name):
    return name + '','' + name.rpartition('', '')[0] + ''*'' if name[:1].isdigit() else name.partition('' '')[0].upper()
');
INSERT INTO "programs" VALUES('a0e4ec71ff44bcc9','def solve(name):
    return name.title().lower()
');
INSERT INTO "programs" VALUES('c1313b8e7cf6299b','import re


def solve(name):
    return name.rpartition('', '')[0].rstrip('','') + ''0'' + re.findall(''[a-z]+'', name)[1]
');
INSERT INTO "programs" VALUES('11db810c4d08a174','def solve(name):
    return name if '' '' not in name else name.partition('' '')[2].rpartition('','')[2][0]
');
INSERT INTO "programs" VALUES('2b44ad35b6dff51c','import re


def solve(name):
    return name + ''1'' + name.rpartition('', '')[0][0] + re.sub(''[A-Z]'', '''', name)[5:] + ''$''
');
INSERT INTO "programs" VALUES('75a7b1710a3a0bb0','def solve(name):
    return name.split(''%'')[1]
');
INSERT INTO "programs" VALUES('cac3c841768439fc','import re


def solve(name):
    return name + re.findall(''\\d+\\.\\d+'', name)[1].lower()
');
INSERT INTO "programs" VALUES('08de111f7e41ee38','def solve(name):
    return name.rpartition('','')[2][4:5]
');
INSERT INTO "programs" VALUES('33321663486dea26','def solve(name):
    return name if name[:3].isdigit() else name.split('','')[0].capitalize()
');
INSERT INTO "programs" VALUES('7e323fc0e7484c80','def solve(name):
    return name.partition('' '')[2] if name.startswith('','') else name.partition('' - '')[0]
');
INSERT INTO "programs" VALUES('cbaa35055d8cd50d','def solve(name):
    return name.split('' '')[2].capitalize()
');
CREATE TABLE prompt_parents (
	prompt_id VARCHAR(255) NOT NULL, 
	position INTEGER NOT NULL, 
	program_id VARCHAR(255) NOT NULL, 
	role VARCHAR(32) NOT NULL, 
	PRIMARY KEY (prompt_id, position), 
	FOREIGN KEY(prompt_id) REFERENCES prompts (id), 
	FOREIGN KEY(program_id) REFERENCES programs (id)
)
 WITHOUT ROWID

;
INSERT INTO "prompt_parents" VALUES('5ef401a7ba1e6cea',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "prompt_parents" VALUES('844abf52af49ae71',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "prompt_parents" VALUES('a9c8b52207f00b80',0,'e2402cbca3d9d7ca','parent');
INSERT INTO "prompt_parents" VALUES('b9d42a855e795811',0,'e2402cbca3d9d7ca','parent');
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
INSERT INTO "prompts" VALUES('fd3bf41b5e3d2dda','older',0,0,'seed',0,'[]',1,0,'1742692732','[["e2402cbca3d9d7ca","def solve(name):\n    return name\n"]]');
INSERT INTO "prompts" VALUES('6ebc61a216f3c79a','older',1,1,'root',0,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6out\u27e7"]]',4,1,'1842640226','[]');
INSERT INTO "prompts" VALUES('e8829c150abe44c3','older',2,1,'root',1,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6out\u27e7"]]',4,1,'23223003','[]');
INSERT INTO "prompts" VALUES('b9d42a855e795811','older',3,5,'mutate',0,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6par\u27e7x0\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6out\u27e7"]]',4,1,'1689654687','[]');
INSERT INTO "prompts" VALUES('4d421f2d5194afe0','older',4,5,'root',1,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6out\u27e7"]]',4,1,'1694744279','[]');
INSERT INTO "prompts" VALUES('a9c8b52207f00b80','older',5,13,'mutate',0,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6par\u27e7x0\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7\u27e6out\u27e7"]]',4,1,'2075206322','[]');
INSERT INTO "prompts" VALUES('de22fbec56a06062','older',6,13,'root',1,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6out\u27e7"]]',4,1,'1285650984','[]');
INSERT INTO "prompts" VALUES('b60190f2246e0a50','older',7,21,'root',0,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6out\u27e7"]]',4,1,'625408997','[]');
INSERT INTO "prompts" VALUES('844abf52af49ae71','older',8,21,'mutate',1,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6par\u27e7x0\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7\u27e6out\u27e7"]]',4,1,'1310811669','[]');
INSERT INTO "prompts" VALUES('02870d458806eb14','older',9,29,'root',0,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6out\u27e7"]]',4,1,'1412413863','[]');
INSERT INTO "prompts" VALUES('5ef401a7ba1e6cea','older',10,29,'mutate',1,'[["user","\u27e6m1\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C7\u27e7,\u27e6s1\u27e7\u27e6C3\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C5\u27e7\u27e6to\u27e7\u27e6@a0\u27e7\u27e6u\u27e7\u27e6ex\u27e7\u27e6a\u27e7\u27e6C6\u27e7,\u27e6s1\u27e7\u27e6C4\u27e7\u27e6to\u27e7\u27e6@a3\u27e7 \u27e6@a0\u27e7\u27e6par\u27e7x0\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6no\u27e7\u27e6@a0\u27e7\u27e6no\u27e7\u27e6@a0\u27e7, \u27e6@a-1\u27e7\u27e6out\u27e7"]]',4,1,'1336421556','[]');
CREATE TABLE rewards (
	evaluation_id VARCHAR(255) NOT NULL, 
	objective INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	value DOUBLE NOT NULL, 
	PRIMARY KEY (evaluation_id, objective), 
	FOREIGN KEY(evaluation_id) REFERENCES evaluations (id)
)
 WITHOUT ROWID

;
INSERT INTO "rewards" VALUES('04c1b5854291ee51',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('04c1b5854291ee51',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('04c1b5854291ee51',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('04c1b5854291ee51',3,'row-4',1.0);
INSERT INTO "rewards" VALUES('04c1b5854291ee51',4,'row-5',1.0);
INSERT INTO "rewards" VALUES('04c1b5854291ee51',5,'row-6',1.0);
INSERT INTO "rewards" VALUES('0aa635aba341a9e3',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('0aa635aba341a9e3',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('0aa635aba341a9e3',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('0aa635aba341a9e3',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('0aa635aba341a9e3',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('0aa635aba341a9e3',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('0c1cf3301522b9ee',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('0c1cf3301522b9ee',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('0c1cf3301522b9ee',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('0c1cf3301522b9ee',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('0c1cf3301522b9ee',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('0c1cf3301522b9ee',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('0c9973c1fc1122f6',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('0c9973c1fc1122f6',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('0c9973c1fc1122f6',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('0c9973c1fc1122f6',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('0c9973c1fc1122f6',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('0c9973c1fc1122f6',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('0d7e5c3209e0b238',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('0d7e5c3209e0b238',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('0d7e5c3209e0b238',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('0d7e5c3209e0b238',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('0d7e5c3209e0b238',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('0d7e5c3209e0b238',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('1e0f90ec68e6d88f',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('1e0f90ec68e6d88f',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('1e0f90ec68e6d88f',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('1e0f90ec68e6d88f',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('1e0f90ec68e6d88f',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('1e0f90ec68e6d88f',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('22a190a5d2d6f126',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('22a190a5d2d6f126',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('22a190a5d2d6f126',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('22a190a5d2d6f126',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('22a190a5d2d6f126',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('22a190a5d2d6f126',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('22b203725f0e04d6',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('22b203725f0e04d6',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('22b203725f0e04d6',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('22b203725f0e04d6',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('22b203725f0e04d6',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('22b203725f0e04d6',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('24437f6d8c2663c7',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('24437f6d8c2663c7',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('24437f6d8c2663c7',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('24437f6d8c2663c7',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('24437f6d8c2663c7',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('24437f6d8c2663c7',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('2a3a9e132a10bc2a',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('2a3a9e132a10bc2a',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('2a3a9e132a10bc2a',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('2a3a9e132a10bc2a',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('2a3a9e132a10bc2a',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('2a3a9e132a10bc2a',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('3b5f035741f5f9d2',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('3b5f035741f5f9d2',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('3b5f035741f5f9d2',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('3b5f035741f5f9d2',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('3b5f035741f5f9d2',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('3b5f035741f5f9d2',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('4277861bd6547ca4',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('4277861bd6547ca4',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('4277861bd6547ca4',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('4277861bd6547ca4',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('4277861bd6547ca4',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('4277861bd6547ca4',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('4391e8235bb9a098',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('4391e8235bb9a098',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('4391e8235bb9a098',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('4391e8235bb9a098',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('4391e8235bb9a098',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('4391e8235bb9a098',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('488f6e556cc2a7c0',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('488f6e556cc2a7c0',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('488f6e556cc2a7c0',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('488f6e556cc2a7c0',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('488f6e556cc2a7c0',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('488f6e556cc2a7c0',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('547da66979f01cc2',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('547da66979f01cc2',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('547da66979f01cc2',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('547da66979f01cc2',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('547da66979f01cc2',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('547da66979f01cc2',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('5531a066d6b44387',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('5531a066d6b44387',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('5531a066d6b44387',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('5531a066d6b44387',3,'row-4',1.0);
INSERT INTO "rewards" VALUES('5531a066d6b44387',4,'row-5',1.0);
INSERT INTO "rewards" VALUES('5531a066d6b44387',5,'row-6',1.0);
INSERT INTO "rewards" VALUES('5b2af009b0282cf8',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('5b2af009b0282cf8',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('5b2af009b0282cf8',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('5b2af009b0282cf8',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('5b2af009b0282cf8',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('5b2af009b0282cf8',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('5fdc5c9cfd988242',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('5fdc5c9cfd988242',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('5fdc5c9cfd988242',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('5fdc5c9cfd988242',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('5fdc5c9cfd988242',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('5fdc5c9cfd988242',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('601fb7b1ce397d86',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('601fb7b1ce397d86',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('601fb7b1ce397d86',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('601fb7b1ce397d86',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('601fb7b1ce397d86',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('601fb7b1ce397d86',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('6452e4d29fce000a',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('6452e4d29fce000a',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('6452e4d29fce000a',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('6452e4d29fce000a',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('6452e4d29fce000a',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('6452e4d29fce000a',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('684cb8c5d4e78731',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('684cb8c5d4e78731',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('684cb8c5d4e78731',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('684cb8c5d4e78731',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('684cb8c5d4e78731',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('684cb8c5d4e78731',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('6f701e1eda017e86',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('6f701e1eda017e86',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('6f701e1eda017e86',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('6f701e1eda017e86',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('6f701e1eda017e86',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('6f701e1eda017e86',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('78ce28fc944e8b60',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('78ce28fc944e8b60',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('78ce28fc944e8b60',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('78ce28fc944e8b60',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('78ce28fc944e8b60',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('78ce28fc944e8b60',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('80b814c6203d8e3a',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('80b814c6203d8e3a',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('80b814c6203d8e3a',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('80b814c6203d8e3a',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('80b814c6203d8e3a',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('80b814c6203d8e3a',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('821f75e09a62f9a6',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('821f75e09a62f9a6',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('821f75e09a62f9a6',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('821f75e09a62f9a6',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('821f75e09a62f9a6',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('821f75e09a62f9a6',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('9247f8add92797cf',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('9247f8add92797cf',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('9247f8add92797cf',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('9247f8add92797cf',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('9247f8add92797cf',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('9247f8add92797cf',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('a7c204bd7412c93c',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('a7c204bd7412c93c',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('a7c204bd7412c93c',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('a7c204bd7412c93c',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('a7c204bd7412c93c',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('a7c204bd7412c93c',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('aae77b98c926e9db',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('aae77b98c926e9db',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('aae77b98c926e9db',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('aae77b98c926e9db',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('aae77b98c926e9db',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('aae77b98c926e9db',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('abb2a5d82e00ebe2',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('abb2a5d82e00ebe2',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('abb2a5d82e00ebe2',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('abb2a5d82e00ebe2',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('abb2a5d82e00ebe2',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('abb2a5d82e00ebe2',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('ac35e8eb419d2b88',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('ac35e8eb419d2b88',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('ac35e8eb419d2b88',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('ac35e8eb419d2b88',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('ac35e8eb419d2b88',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('ac35e8eb419d2b88',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('b14645f18dd64547',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('b14645f18dd64547',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('b14645f18dd64547',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('b14645f18dd64547',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('b14645f18dd64547',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('b14645f18dd64547',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('b5842f0df5e5c1cc',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('b5842f0df5e5c1cc',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('b5842f0df5e5c1cc',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('b5842f0df5e5c1cc',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('b5842f0df5e5c1cc',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('b5842f0df5e5c1cc',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('c33c6a0870b44f01',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('c33c6a0870b44f01',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('c33c6a0870b44f01',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('c33c6a0870b44f01',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('c33c6a0870b44f01',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('c33c6a0870b44f01',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('cc04a0ce41e2d902',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('cc04a0ce41e2d902',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('cc04a0ce41e2d902',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('cc04a0ce41e2d902',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('cc04a0ce41e2d902',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('cc04a0ce41e2d902',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('d972dc490112821a',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('d972dc490112821a',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('d972dc490112821a',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('d972dc490112821a',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('d972dc490112821a',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('d972dc490112821a',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('dfcec759db3de8e0',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('dfcec759db3de8e0',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('dfcec759db3de8e0',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('dfcec759db3de8e0',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('dfcec759db3de8e0',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('dfcec759db3de8e0',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('e1bdde7b5251430d',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('e1bdde7b5251430d',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('e1bdde7b5251430d',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('e1bdde7b5251430d',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('e1bdde7b5251430d',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('e1bdde7b5251430d',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('f4ef0bf073009449',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('f4ef0bf073009449',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('f4ef0bf073009449',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('f4ef0bf073009449',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('f4ef0bf073009449',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('f4ef0bf073009449',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('f8de4180a6578457',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('f8de4180a6578457',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('f8de4180a6578457',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('f8de4180a6578457',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('f8de4180a6578457',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('f8de4180a6578457',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('f91baf20416d66a0',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('f91baf20416d66a0',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('f91baf20416d66a0',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('f91baf20416d66a0',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('f91baf20416d66a0',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('f91baf20416d66a0',5,'row-6',0.0);
INSERT INTO "rewards" VALUES('ff21506846be4269',0,'row-1',0.0);
INSERT INTO "rewards" VALUES('ff21506846be4269',1,'row-2',0.0);
INSERT INTO "rewards" VALUES('ff21506846be4269',2,'row-3',0.0);
INSERT INTO "rewards" VALUES('ff21506846be4269',3,'row-4',0.0);
INSERT INTO "rewards" VALUES('ff21506846be4269',4,'row-5',0.0);
INSERT INTO "rewards" VALUES('ff21506846be4269',5,'row-6',0.0);
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
	seconds DOUBLE NOT NULL, 
	model TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT rollouts_in_group UNIQUE (prompt_id, rollout_index), 
	FOREIGN KEY(prompt_id) REFERENCES prompts (id)
);
INSERT INTO "rollouts" VALUES('210eb5df350e0c37','6ebc61a216f3c79a',0,0,'x0.rpartition('', '')[0]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('2952b83759db2810','6ebc61a216f3c79a',1,0,'x0 + ''_'' + x0.split()[-1] if x0[:2].isdigit() else x0.split('', '')[1]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('0dbd19b5a1ecedd0','6ebc61a216f3c79a',2,0,'x0 if x0[:2].isupper() else x0 + ''@''⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('5cee76142fc558bc','6ebc61a216f3c79a',3,0,'x0.lower()[2].replace('' '', ''|'')⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('2ec2c2e2521b3122','e8829c150abe44c3',0,0,'x0[1:-3].strip()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('6ca76e51a22bdabb','e8829c150abe44c3',1,0,'x0.partition('','')[2][0]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('c627e492577987ae','e8829c150abe44c3',2,0,'x0.rpartition('' '')[2].rstrip('','') if int(x0) == 99 else x0.rpartition('' '')[2] if x0.split()[0].isdigit() else x0.split()[1].title()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('9a2134b87818396e','e8829c150abe44c3',3,0,'''@'' if len(x0) < 13 else x0⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('dfb8ec98c6406ead','b9d42a855e795811',0,0,'x0.partition('', '')[2].title()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('c7e46a9eb1301462','b9d42a855e795811',1,0,'re.findall(''\\d{2}'', x0)[1] if x0.startswith('' '') else x0.split('', '')[0]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('5930621be862c4b6','b9d42a855e795811',2,0,'x0.partition('','')[0][:3]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('dd80c12b5367862f','b9d42a855e795811',3,0,'x0.split('', '')[1]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('43bffadbdb5d6443','4d421f2d5194afe0',0,0,'x0.split()[1] if x0.endswith('','') else x0.rpartition(''A'')[0] + ''_'' + x0 + '','' if x0.startswith('','') else x0.split('', '')[-1][0] + ''(''⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('4a482436764f1457','4d421f2d5194afe0',1,0,'x0.split('','')[1] + ''|''⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('87015676a11b440e','4d421f2d5194afe0',2,0,'x0.partition('' '')[0].rpartition('' '')[0] if x0.startswith('' '') else x0.partition('' '')[2]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('e63925658ef05177','4d421f2d5194afe0',3,0,'x0.partition('', '')[2].lower() if '':'' in x0 else re.sub(''[^A-Za-z]'', '''', x0).lstrip('' '')⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('bf9d65b28e25ca10','a9c8b52207f00b80',0,0,'x0.split()[-1].upper() + '' caa-'' + x0⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('a86dc56b9c048ba2','a9c8b52207f00b80',1,0,'x0.partition('','')[0].lower() + ''&'' + x0.split()[2][0] if '', '' in x0 else re.sub(''[^A-Za-z0-9]'', '''', x0)[0]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('8748ee542f106149','a9c8b52207f00b80',2,0,'re.findall(''[A-Z]+'', x0.replace('','', ''-''))[0] if x0.endswith('', '') else x0[:-5].capitalize()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('c1ceb9b438d13766','a9c8b52207f00b80',3,0,'re.sub(''\\d+$'', '''', x0) + ''pcd.''⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('3ebcbb2dadc607c8','de22fbec56a06062',0,0,'x0.split('', '')[0] if x0.isdigit() else x0.split('' '')[0] + ''@'' + x0.partition('', '')[2].upper()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('60db1b60f5937484','de22fbec56a06062',1,0,'(''_'' + x0.split('','')[0] + x0.partition('','')[2][0] + '')'' + x0).strip('','') if x0[-1].islower() else x0⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('fcb9da40a4a5fb72','de22fbec56a06062',2,0,'x0.split('', '')[1][:2] if '' '' in x0 else ''|''⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('587ee9d684c03ebf','de22fbec56a06062',3,0,'x0[0]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('ae32662ebe6f6be1','b60190f2246e0a50',0,0,'x0.replace('' '', ''.'').upper()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('d3b61f63eb512c2a','b60190f2246e0a50',1,0,'x0.split('','')[2] if x0.endswith("''") else ''|''⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('4edb4b011f33c057','b60190f2246e0a50',2,0,'re.sub(''\\D'', '''', x0)[0]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('9b2a8290ab4d1398','b60190f2246e0a50',3,0,'(x0.split()[1][0] if ''€'' in x0 else x0) + (''_'' + x0.partition('' '')[2] + x0.split('' '')[0][0])⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('15198bf0893caeeb','844abf52af49ae71',0,0,'x0.title().lower()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('f6a8db5bce757f7a','844abf52af49ae71',1,0,'x0.rpartition('', '')[0].rstrip('','') + ''0'' + re.findall(''[a-z]+'', x0)[1]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('eb02629e079a0121','844abf52af49ae71',2,0,'re.sub(''\\s+'', '''', x0.replace('', '', ''''))⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('a702f586faeba697','844abf52af49ae71',3,0,'x0 + '','' + x0.rpartition('', '')[0] + ''*'' if x0[:1].isdigit() else x0.partition('' '')[0].upper()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('67e0d48df83aff85','02870d458806eb14',0,0,'x0.split(''%'')[1]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('2cf05bf038d80a46','02870d458806eb14',1,0,'x0 + ''1'' + x0.rpartition('', '')[0][0] + re.sub(''[A-Z]'', '''', x0)[5:] + ''$''⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('0619e15e6b67cdb3','02870d458806eb14',2,0,'x0 + re.findall(''\\d+\\.\\d+'', x0)[1].lower()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('9394f16c5ffcb8d7','02870d458806eb14',3,0,'x0 if '' '' not in x0 else x0.partition('' '')[2].rpartition('','')[2][0]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('f126866d1b5d863c','5ef401a7ba1e6cea',0,0,'x0.partition('' '')[2] if x0.startswith('','') else x0.partition('' - '')[0]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('8fbb117b20117b3d','5ef401a7ba1e6cea',1,0,'x0 if x0[:3].isdigit() else x0.split('','')[0].capitalize()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('fcf6689ab4177512','5ef401a7ba1e6cea',2,0,'x0.rpartition('','')[2][4:5]⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
INSERT INTO "rollouts" VALUES('aa3125cdd962d044','5ef401a7ba1e6cea',3,0,'x0.split('' '')[2].capitalize()⟦end⟧',NULL,NULL,NULL,NULL,1.0,160,0,'stop',0.0,'');
CREATE TABLE run_events (
	number INTEGER NOT NULL, 
	run_id VARCHAR(255) NOT NULL, 
	status VARCHAR(32) NOT NULL, 
	at VARCHAR(64) NOT NULL, 
	heldout_passed INTEGER, 
	heldout_total INTEGER, 
	asks_before INTEGER, 
	tells_before INTEGER, 
	config TEXT, 
	PRIMARY KEY (number), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "run_events" VALUES(1,'older','running','2026-11-23T21:34:57+00:00',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "run_events" VALUES(2,'older','interrupted','2026-11-23T21:35:12+00:00',NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "runs" VALUES('older','names','names-1','3',60,'{"budget": {"money": 0.0, "tokens": 0}, "evaluator": {"allow": "", "artifact_bytes": 2000, "artifacts": true, "cascade": true, "initial_program": "", "judges": "", "memory_mb": 4096, "metrics": "", "mode": "whole", "processes": 64, "thresholds": "0.5, 0.75, 0.9", "timeout_seconds": 300.0}, "models": [], "prompt": {"attempt_characters": 600, "enforce_blocks": true, "feedback_characters": 1500, "openevolve": "", "program_characters": 40000, "style": "auto", "templates": ""}, "proposer": {"attempts": 5, "base_url": "", "concurrency": 16, "endpoint": "auto", "ensemble": "weights", "model": "", "name": "random", "policy": "start", "requests_per_minute": 0, "threads": 0, "timeout_seconds": 120.0, "tokens_per_minute": 0, "tolerance": 0.0001}, "run": {"archipelago": "", "origin": "", "programs": "", "seed": 3}, "sampling": {"max_tokens": 0, "temperature": 1.0}, "sandbox": {"executor": "local", "minimum_level": "landlock+seccomp", "resources": "", "workers": 1}, "search": {"answers": 1, "attempts": 3, "beam": 4, "crossover_share": 0.0, "diverse_programs": 0, "elites": 32, "evaluations": 60, "exploration": 1.0, "focus_share": 0.25, "goals": false, "in_flight": 2, "inspirations": 0, "islands": 2, "join_proposals": 8, "join_share": 0.1, "joins": true, "lone_row_joins_after": 0.5, "migrants": 2, "migration_interval": 10, "notes_interval": 0, "novelty": 0.0, "novelty_cosine": 0.98, "novelty_model": "", "patience": 0, "repair_share": 0.0, "restart_after": 0, "rollouts": 4, "root_share": 0.5, "selection": "lexicase", "stop_when_solved": true, "strategy": "islands", "target": "", "top_programs": 0}, "store": {"url": "sqlite:///old.db"}}','2026-11-23T21:34:56+00:00');
CREATE TABLE snapshots (
	run_id VARCHAR(255) NOT NULL, 
	asks INTEGER NOT NULL, 
	tells INTEGER NOT NULL, 
	version VARCHAR(32) NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (run_id), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE TABLE summaries (
	run_id VARCHAR(255) NOT NULL, 
	tells INTEGER NOT NULL, 
	figures BLOB NOT NULL, 
	curve BLOB NOT NULL, 
	PRIMARY KEY (run_id, tells), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
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
INSERT INTO "tells" VALUES('older',0,'fd3bf41b5e3d2dda',0,NULL,1);
INSERT INTO "tells" VALUES('older',1,'6ebc61a216f3c79a',0,'210eb5df350e0c37',1);
INSERT INTO "tells" VALUES('older',2,'6ebc61a216f3c79a',1,'2952b83759db2810',1);
INSERT INTO "tells" VALUES('older',3,'6ebc61a216f3c79a',2,'0dbd19b5a1ecedd0',1);
INSERT INTO "tells" VALUES('older',4,'6ebc61a216f3c79a',3,'5cee76142fc558bc',1);
INSERT INTO "tells" VALUES('older',5,'e8829c150abe44c3',0,'2ec2c2e2521b3122',1);
INSERT INTO "tells" VALUES('older',6,'e8829c150abe44c3',1,'6ca76e51a22bdabb',1);
INSERT INTO "tells" VALUES('older',7,'e8829c150abe44c3',2,'c627e492577987ae',1);
INSERT INTO "tells" VALUES('older',8,'e8829c150abe44c3',3,'9a2134b87818396e',1);
INSERT INTO "tells" VALUES('older',9,'b9d42a855e795811',0,'dfb8ec98c6406ead',1);
INSERT INTO "tells" VALUES('older',10,'b9d42a855e795811',1,'c7e46a9eb1301462',1);
INSERT INTO "tells" VALUES('older',11,'b9d42a855e795811',2,'5930621be862c4b6',1);
INSERT INTO "tells" VALUES('older',12,'b9d42a855e795811',3,'dd80c12b5367862f',1);
INSERT INTO "tells" VALUES('older',13,'4d421f2d5194afe0',0,'43bffadbdb5d6443',1);
INSERT INTO "tells" VALUES('older',14,'4d421f2d5194afe0',1,'4a482436764f1457',1);
INSERT INTO "tells" VALUES('older',15,'4d421f2d5194afe0',2,'87015676a11b440e',1);
INSERT INTO "tells" VALUES('older',16,'4d421f2d5194afe0',3,'e63925658ef05177',1);
INSERT INTO "tells" VALUES('older',17,'a9c8b52207f00b80',0,'bf9d65b28e25ca10',1);
INSERT INTO "tells" VALUES('older',18,'a9c8b52207f00b80',1,'a86dc56b9c048ba2',1);
INSERT INTO "tells" VALUES('older',19,'a9c8b52207f00b80',2,'8748ee542f106149',1);
INSERT INTO "tells" VALUES('older',20,'a9c8b52207f00b80',3,'c1ceb9b438d13766',1);
INSERT INTO "tells" VALUES('older',21,'de22fbec56a06062',0,'3ebcbb2dadc607c8',1);
INSERT INTO "tells" VALUES('older',22,'de22fbec56a06062',1,'60db1b60f5937484',1);
INSERT INTO "tells" VALUES('older',23,'de22fbec56a06062',2,'fcb9da40a4a5fb72',1);
INSERT INTO "tells" VALUES('older',24,'de22fbec56a06062',3,'587ee9d684c03ebf',1);
INSERT INTO "tells" VALUES('older',25,'b60190f2246e0a50',0,'ae32662ebe6f6be1',1);
INSERT INTO "tells" VALUES('older',26,'b60190f2246e0a50',1,'d3b61f63eb512c2a',1);
INSERT INTO "tells" VALUES('older',27,'b60190f2246e0a50',2,'4edb4b011f33c057',1);
INSERT INTO "tells" VALUES('older',28,'b60190f2246e0a50',3,'9b2a8290ab4d1398',1);
INSERT INTO "tells" VALUES('older',29,'844abf52af49ae71',0,'15198bf0893caeeb',1);
INSERT INTO "tells" VALUES('older',30,'844abf52af49ae71',1,'f6a8db5bce757f7a',1);
INSERT INTO "tells" VALUES('older',31,'844abf52af49ae71',2,'eb02629e079a0121',1);
INSERT INTO "tells" VALUES('older',32,'844abf52af49ae71',3,'a702f586faeba697',1);
INSERT INTO "tells" VALUES('older',33,'02870d458806eb14',0,'67e0d48df83aff85',1);
INSERT INTO "tells" VALUES('older',34,'02870d458806eb14',1,'2cf05bf038d80a46',1);
INSERT INTO "tells" VALUES('older',35,'02870d458806eb14',2,'0619e15e6b67cdb3',1);
INSERT INTO "tells" VALUES('older',36,'02870d458806eb14',3,'9394f16c5ffcb8d7',1);
INSERT INTO "tells" VALUES('older',37,'5ef401a7ba1e6cea',0,'f126866d1b5d863c',1);
INSERT INTO "tells" VALUES('older',38,'5ef401a7ba1e6cea',1,'8fbb117b20117b3d',1);
INSERT INTO "tells" VALUES('older',39,'5ef401a7ba1e6cea',2,'fcf6689ab4177512',1);
INSERT INTO "tells" VALUES('older',40,'5ef401a7ba1e6cea',3,'aa3125cdd962d044',1);
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
CREATE INDEX calls_by_run ON calls (run_id);
CREATE INDEX candidates_by_program ON candidates (program_id, run_id);
COMMIT;
